"""Images as registries and nodes know them: asked when somebody wants that, and remembered by the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from providers.images import NodeImage, PullsImages
from reconciler.values.documents.pre_pull import pre_pull_nodes
from schemas.images.facts import ImageFacts
from schemas.kinds.image import Image, Registry
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:
    from providers.base import Provider
    from providers.registry_client.access import RegistryAccess
    from reconciler.store.reader import StoreReader
    from reconciler.store.store import Store
    from reconciler.values.plan import Plan
    from reconciler.values.results import ApplyResult
    from reconciler.values.state import Actual, Desired
    from schemas.kinds.session import Session
    from schemas.repository.repository import Repository
    from schemas.values.image_reference import ImageReference

ResolveSecret = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class KnownImage:
    """An image that documents name: the document, if it has one, and who uses it."""

    reference: ImageReference
    image: Image | None
    sessions: tuple[str, ...]

    @property
    def name(self) -> str:
        """As people call it."""
        return self.image.name if self.image else self.reference.short


def recorded_images(store: StoreReader) -> dict[str, ImageFacts]:
    """Full reference → what is known."""
    return {reference: facts for reference, (facts, _) in store.images().items()}


def images_on_nodes(
    desired: Desired, provider: Provider, actual: Actual
) -> Mapping[str, tuple[NodeImage, ...]] | None:
    """What the nodes have that are to have images early; asks nobody where there are none such, and gives
    None where nobody can be asked."""
    nodes = frozenset(
        node.name
        for image in desired.resources.values()
        if isinstance(image, Image)
        for node in pre_pull_nodes(desired, image)
    )
    if not nodes or not isinstance(provider, PullsImages):
        return None
    try:
        return provider.images(nodes - actual.missed.keys())[0]
    except ProviderError:
        return None


def known_images(repository: Repository, sessions: Mapping[str, Session]) -> tuple[KnownImage, ...]:
    """Every image that is described or used, described ones first, by name."""
    users: dict[ImageReference, set[str]] = {}
    for identity, session in sessions.items():
        for container in session.spec.containers:
            try:
                users.setdefault(repository.images.resolve(container.image), set()).add(identity)
            except ValueError:
                continue
    described = {repository.images.reference_of(image): image for image in repository.of(Image)}
    found = [
        KnownImage(ref, described.get(ref), tuple(sorted(users.get(ref, ())))) for ref in {*users, *described}
    ]
    return tuple(sorted(found, key=lambda each: (each.image is None, each.name)))


# Asking registries


def access_to(repository: Repository, reference: ImageReference, secret: ResolveSecret) -> RegistryAccess:
    """How the registry of an image is asked, with the credentials read now. Raises SecretMissing."""
    registry = repository.images.registry_of(reference)
    if registry is not None:
        return access_of(registry, secret)
    from providers.registry_client.access import RegistryAccess

    return RegistryAccess(reference.domain)


def access_of(registry: Registry, secret: ResolveSecret) -> RegistryAccess:
    """Raises SecretMissing."""
    from providers.registry_client.access import RegistryAccess

    spec, login = registry.spec, registry.spec.credentials
    username = password = ""
    ca = secret(spec.ca_from) if spec.ca_from else ""
    if login is not None:
        username = secret(login.username_from) if login.username_from else login.username or ""
        password = secret(login.password_from)
    return RegistryAccess(spec.address, spec.plain_http, spec.insecure, ca, username, password)


def scan_registries(
    repository: Repository, images: Iterable[KnownImage], secret: ResolveSecret
) -> Iterator[tuple[KnownImage, ImageFacts | BaiError]]:
    """Ask the registries, each over one client, and give what they say or why they do not."""
    from providers.registry_client.client import RegistryClient

    clients: dict[RegistryAccess, RegistryClient] = {}
    try:
        for known in images:
            try:
                access = access_to(repository, known.reference, secret)
                client = clients.setdefault(access, RegistryClient(access))
                yield known, client.facts(known.reference)
            except BaiError as error:
                yield known, error
    finally:
        for client in clients.values():
            client.close()


# Asking nodes


def pulled_image_facts(
    repository: Repository, provider: Provider, store: Store, pulled: Iterable[tuple[str, str]]
) -> tuple[ImageFacts, ...]:
    """What nodes know of images that they have just fetched, where nothing was known: `pulled` are nodes and
    references as texts."""
    if not isinstance(provider, PullsImages):
        return ()
    known = recorded_images(store)
    found: dict[str, ImageFacts] = {}
    for node, text in pulled:
        reference = str(repository.images.resolve(text))
        if reference in known or reference in found or "@" in reference:
            continue
        try:
            told = provider.image_facts(node, text)
        except ProviderError:
            continue
        if told is not None:
            architecture, platform, digest = told
            found[reference] = ImageFacts(
                reference=reference, digest=digest, platforms={architecture: platform}
            )
    return tuple(found.values())


def record_pulled_images(
    repository: Repository, provider: Provider, store: Store, plan: Plan, result: ApplyResult, now: float
) -> None:
    """Remember what nodes know of images that were brought to them, where nobody asked a registry."""
    done = {each.action for each in result.results if each.outcome == "done"}
    pulls = (pull for action in plan.changes if action.id in done for pull in action.pulls)
    pulled = [(pull.node, pull.image) for pull in pulls]
    if pulled:
        store.save_images(pulled_image_facts(repository, provider, store, pulled), now)


def find_known(repository: Repository, images: Iterable[KnownImage], name: str) -> KnownImage | None:
    """The image that a name or reference means."""
    wanted = repository.images.find(name)
    try:
        reference = repository.images.resolve(name)
    except ValueError:
        return None
    return next((each for each in images if each.image is wanted and each.reference == reference), None)
