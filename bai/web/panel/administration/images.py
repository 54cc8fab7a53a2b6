"""Images: which there are, what is known of them, and where they are; the registries they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries.facts.images import image_views
from bai.render.humanize import clean, join_limited, size
from bai.render.plan.images import image_row, nodes_having_image, short_digest
from bai.web.panel.views.paging import Paging, kept
from reconciler.guards.signers import ImageSigners
from schemas.kinds.image import Registry
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from bai.render.plan.images import ImageView
    from bai.web.pass_view import PassView
    from reconciler.values.sides import Pull
    from schemas.images.facts import ImageFacts

MOST_USERS = 3
_MOST_PULLS = 200


@dataclass(frozen=True, slots=True)
class ImageRow:
    """One image in the words of `bai images`. `known`: since how long, or that nobody asked; `sessions`: the
    first that use it, of `users`; `nodes`: which are known to have it, empty where nobody looked; `signers`:
    fingerprints of keys that were found to have signed this very digest; `document`: its Image's name, where
    that is for the viewer to read."""

    name: str
    reference: str
    digest: str
    whole_digest: str
    runs_on: str
    size: str
    known: str
    sessions: tuple[str, ...]
    users: int
    nodes: str
    signers: tuple[str, ...]
    document: str


@dataclass(frozen=True, slots=True)
class PullRow:
    """An image that the last pass set out to bring to a node, and for what."""

    image: str
    node: str
    size: str
    policy: str
    resource: str


@dataclass(frozen=True, slots=True)
class RegistryRow:
    """Where images come from, and as whom; never a password. `notes`: what is unusual about the way there."""

    name: str
    type: str
    address: str
    login: str
    notes: str


@dataclass(frozen=True, slots=True)
class ImagesPage:
    """`pulls`: the first of `pull_count`; `pulling`: sessions whose images come just now. `registries` are
    for who sees documents."""

    rows: tuple[ImageRow, ...]
    paging: Paging
    q: str
    pulls: tuple[PullRow, ...]
    pull_count: int
    pulling: tuple[str, ...]
    registries: tuple[RegistryRow, ...]

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes."""
        return kept({"q": self.q} | changes)


def images_page(view: PassView, q: str = "", page: int = 1) -> ImagesPage:
    """Those that sessions use which the viewer sees, and for who sees everything all others. Raises what
    looking raises."""
    text = q.strip().lower()
    every = [each for each in image_views(view.desired, view.store) if _is_seen(view, each)]
    chosen = [
        each
        for each in every
        if text in each.known.name.lower() or text in each.known.reference.short.lower()
    ]
    paging, signers = Paging.of(len(chosen), page), _signers(view)
    pulls = list(_pulls(view))
    return ImagesPage(
        rows=tuple(_row(view, each, signers) for each in chosen[paging.first : paging.last]),
        paging=paging,
        q=q,
        pulls=tuple(_pull_row(pull, resource) for pull, resource in pulls[:_MOST_PULLS]),
        pull_count=len(pulls),
        pulling=tuple(
            sorted(
                name
                for name, item in view.actual.existing.items()
                if item.phase == "PULLING" and view.sees(name)
            )
        ),
        registries=tuple(_registries(view)),
    )


def _is_seen(view: PassView, found: ImageView) -> bool:
    image = found.known.image
    return (image is not None and view.sees(image.identity)) or any(map(view.sees, found.known.sessions))


def _signers(view: PassView) -> Mapping[str, frozenset[str]]:
    return ImageSigners.of(view.actual.images).by_digest


def _row(view: PassView, found: ImageView, signers: Mapping[str, frozenset[str]]) -> ImageRow:
    name, reference, digest, runs_on, amount, known, _ = image_row(found, view.now)
    users = [session for session in found.known.sessions if view.sees(session)]
    image = found.known.image
    return ImageRow(
        name=clean(name),
        reference=clean(reference),
        digest=clean(digest),
        whole_digest=clean(found.facts.digest) if found.facts else "",
        runs_on=clean(runs_on),
        size=amount,
        known=known,
        sessions=tuple(users[:MOST_USERS]),
        users=len(users),
        nodes=_nodes(view, found),
        signers=_signers_of(found.facts, signers),
        document=image.identity if image is not None and view.sees(image.identity) else "",
    )


def _nodes(view: PassView, found: ImageView) -> str:
    held = view.actual.held
    if held is None:
        return ""
    return join_limited(map(clean, nodes_having_image(held, found.known, found.facts))) or "none"


def _signers_of(facts: ImageFacts | None, signers: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    found = signers.get(facts.digest, frozenset()) if facts is not None and facts.digest else frozenset()
    return tuple(sorted(short_digest(each) or clean(each, 20) for each in found))


def _pulls(view: PassView) -> Iterator[tuple[Pull, str]]:
    for action in view.plan.changes:
        if view.sees(action.id):
            yield from ((pull, action.id) for pull in action.pulls)


def _pull_row(pull: Pull, resource: str) -> PullRow:
    return PullRow(clean(pull.image), pull.node, size(pull.size) if pull.size else "", pull.policy, resource)


def _registries(view: PassView) -> Iterator[RegistryRow]:
    for registry in sorted(view.repository.of(Registry), key=lambda each: each.name):
        if not view.sees(identity_of("Registry", registry.name)):
            continue
        spec = registry.spec
        login = spec.credentials
        notes = (
            ["without TLS"] if spec.plain_http else ["whoever answers is believed"] if spec.insecure else []
        )
        notes += ["trusts certificates of its own"] if spec.ca_from else []
        notes += [f"serves {join_limited(map(clean, spec.serves))}"] if spec.serves else []
        yield RegistryRow(
            name=registry.name,
            type=spec.type,
            address=clean(spec.address),
            login="nobody" if login is None else clean(login.username or "(secret)"),
            notes=", ".join(notes),
        )
