"""Images as registries and nodes know them: asked when somebody wants that, and remembered by the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from providers.base import Provider
from providers.images import NodeImage, Pulls
from reconciler.plan.images import early_nodes
from reconciler.values.state import Actual, Desired
from schemas.images.facts import ImageFacts
from schemas.images.resolution import image_of, reference_of, registry_of, resolve
from schemas.kinds.image import Image, Registry
from schemas.kinds.session import Session
from schemas.problems.errors import BaiError, ProviderError
from schemas.repository.repository import Repository
from schemas.values.image_reference import ImageReference

if TYPE_CHECKING:
    from providers.registry_client.access import Access
    from reconciler.store import Store
    from reconciler.values.plan import Plan
    from reconciler.values.results import ApplyResult

Resolve = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Known:
    """An image that documents name: the document, if it has one, and who uses it."""

    reference: ImageReference
    image: Image | None
    sessions: tuple[str, ...]

    @property
    def name(self) -> str:
        """As people call it."""
        return self.image.name if self.image else self.reference.short


def remembered(store: Store) -> dict[str, ImageFacts]:
    """Full reference → what is known."""
    return {reference: facts for reference, (facts, _) in store.images().items()}


def held(desired: Desired, provider: Provider, actual: Actual) -> Mapping[str, tuple[NodeImage, ...]] | None:
    """What the nodes have that are to have images early; asks nobody where there are none such, and gives
    None where nobody can be asked."""
    nodes = frozenset(
        node.name
        for image in desired.resources.values()
        if isinstance(image, Image)
        for node in early_nodes(desired, image)
    )
    if not nodes or not isinstance(provider, Pulls):
        return None
    try:
        return provider.images(nodes - actual.missed.keys())[0]
    except ProviderError:
        return None


def known_images(repository: Repository, sessions: Mapping[str, Session]) -> tuple[Known, ...]:
    """Every image that is described or used, described ones first, by name."""
    users: dict[ImageReference, set[str]] = {}
    for identity, session in sessions.items():
        for container in session.spec.containers():
            try:
                users.setdefault(resolve(repository, container.image), set()).add(identity)
            except ValueError:
                continue
    described = {reference_of(repository, image): image for image in repository.of(Image)}
    found = [
        Known(ref, described.get(ref), tuple(sorted(users.get(ref, ())))) for ref in {*users, *described}
    ]
    return tuple(sorted(found, key=lambda each: (each.image is None, each.name)))


# Asking registries


def access_to(repository: Repository, reference: ImageReference, secret: Resolve) -> Access:
    """How the registry of an image is asked, with the credentials read now. Raises SecretMissing."""
    registry = registry_of(repository, reference)
    if registry is not None:
        return access_of(registry, secret)
    from providers.registry_client.access import Access

    return Access(reference.domain)


def access_of(registry: Registry, secret: Resolve) -> Access:
    """Raises SecretMissing."""
    from providers.registry_client.access import Access

    spec, login = registry.spec, registry.spec.credentials
    username = password = ""
    ca = secret(spec.ca_from) if spec.ca_from else ""
    if login is not None:
        username = secret(login.username_from) if login.username_from else login.username or ""
        password = secret(login.password_from)
    return Access(spec.address, spec.plain_http, spec.insecure, ca, username, password)


def scan(
    repository: Repository, images: Iterable[Known], secret: Resolve
) -> Iterator[tuple[Known, ImageFacts | BaiError]]:
    """Ask the registries, each over one client, and give what they say or why they do not."""
    from providers.registry_client.client import RegistryClient

    clients: dict[Access, RegistryClient] = {}
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


def learned(
    repository: Repository, provider: Provider, store: Store, pulled: Iterable[tuple[str, str]]
) -> tuple[ImageFacts, ...]:
    """What nodes know of images that they have just fetched, where nothing was known: `pulled` are nodes and
    references as texts."""
    if not isinstance(provider, Pulls):
        return ()
    known = remembered(store)
    found: dict[str, ImageFacts] = {}
    for node, text in pulled:
        reference = str(resolve(repository, text))
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


def learn(
    repository: Repository, provider: Provider, store: Store, plan: Plan, result: ApplyResult, now: float
) -> None:
    """Remember what nodes know of images that were brought to them, where nobody asked a registry."""
    done = {each.action for each in result.results if each.outcome == "done"}
    sides = (action.after for action in plan.changes if action.id in done)
    pulled = [(pull.node, pull.image) for side in sides if side for pull in side.pulls]
    if pulled:
        store.save_images(learned(repository, provider, store, pulled), now)


def find_known(repository: Repository, images: Iterable[Known], name: str) -> Known | None:
    """The image that a name or reference means."""
    wanted = image_of(repository, name)
    try:
        reference = resolve(repository, name)
    except ValueError:
        return None
    return next((each for each in images if each.image is wanted and each.reference == reference), None)
