"""What names what: every reference of every kind, found dangling, ambiguous or circular."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.cluster import Cluster
from schemas.kinds.image import Image
from schemas.kinds.node import MachineSpec, Node, NodePool
from schemas.kinds.notification import Notification
from schemas.kinds.policy import Policy
from schemas.kinds.quota import Quota
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.secret_store import EVERYBODY, SecretStore
from schemas.kinds.session import Session
from schemas.kinds.storage import StorageHost, Volume
from schemas.kinds.tenancy import Project, User
from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean, format_value
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource
from schemas.values.once_per_value import once_per_value
from schemas.values.resource_ref import identity_of, ref_of

MOST_HINTS = 200
IDENTITY = re.compile(r"Session/[a-z0-9-]+/[a-z0-9-]+\Z")


@dataclass(frozen=True, slots=True)
class DocumentReference:
    """One reference: where it stands, what kind it names, how it is written, which identities satisfy it."""

    at: Loc
    kind: str
    name: str
    wanted: tuple[str, ...]


def _reference(at: Loc, kind: str, name: str | None) -> Iterator[DocumentReference]:
    if name is not None:
        yield DocumentReference(at, kind, name, (identity_of(kind, name),))


def _cluster(resource: Any) -> Iterator[DocumentReference]:
    yield from _reference(("spec", "cluster"), "Cluster", resource.spec.cluster)


def _defaults(cluster: Any) -> Iterator[DocumentReference]:
    yield from _reference(
        ("spec", "defaults", "resourceGroup"), "ResourceGroup", cluster.spec.defaults.resource_group
    )
    yield from _reference(("spec", "profile"), "NodeProfile", cluster.spec.profile)
    for group in cluster.spec.kubernetes.provisioning_requests:
        at: Loc = ("spec", "kubernetes", "provisioningRequests", group)
        yield from _reference(at, "ResourceGroup", group)


def _machine(resource: Any) -> Iterator[DocumentReference]:
    spec: MachineSpec = resource.spec
    yield from _cluster(resource)
    yield from _reference(("spec", "resourceGroup"), "ResourceGroup", spec.resource_group)
    yield from _reference(("spec", "profile"), "NodeProfile", spec.profile)


def _group(resource: Any) -> Iterator[DocumentReference]:
    yield from _cluster(resource)
    for index, name in enumerate(resource.spec.allowed_projects or ()):
        yield from _reference(("spec", "allowedProjects", index), "Project", name)
    for key in resource.spec.queue_options.weights:
        kind, _, name = key.partition("/")
        yield from _reference(("spec", "queueOptions", "weights", key), kind.capitalize(), name)
    for number, kept in enumerate(resource.spec.reservations):
        for index, name in enumerate(kept.projects):
            yield from _reference(("spec", "reservations", number, "projects", index), "Project", name)
        for index, name in enumerate(kept.nodes):
            yield from _reference(("spec", "reservations", number, "nodes", index), "Node", name)


def _host(resource: Any) -> Iterator[DocumentReference]:
    yield from _cluster(resource)
    yield from _reference(("spec", "node"), "Node", resource.spec.node)


def _project(resource: Any) -> Iterator[DocumentReference]:
    yield from _reference(("spec", "domain"), "Domain", resource.spec.domain)


def _user(resource: Any) -> Iterator[DocumentReference]:
    for index, name in enumerate(resource.spec.projects):
        yield from _reference(("spec", "projects", index), "Project", name)


def _quota(resource: Any) -> Iterator[DocumentReference]:
    kind, name = resource.spec.subject.kind_and_name
    yield from _reference(("spec", "subject", kind), kind.capitalize(), name)
    yield from _reference(("spec", "resourceGroup"), "ResourceGroup", resource.spec.resource_group)


def _owner(at: Loc, name: str | None) -> Iterator[DocumentReference]:
    if name is not None:
        yield DocumentReference(at, "User", name, (identity_of("User", name), f"User/@{name.lower()}"))


def _volume(resource: Any) -> Iterator[DocumentReference]:
    yield from _reference(("metadata", "project"), "Project", resource.project)
    yield from _reference(("spec", "host"), "StorageHost", resource.spec.host)
    yield from _owner(("spec", "owner"), resource.spec.owner)
    for index, allowed in enumerate(resource.spec.permissions):
        yield from _owner(("spec", "permissions", index, "user"), allowed.user)
        yield from _reference(("spec", "permissions", index, "project"), "Project", allowed.project)


def _session(resource: Any) -> Iterator[DocumentReference]:
    spec = resource.spec
    yield from _reference(("metadata", "project"), "Project", resource.project)
    yield from _reference(("spec", "resourceGroup"), "ResourceGroup", spec.resource_group)
    yield from _owner(("spec", "owner"), spec.owner)
    for index, mount in enumerate(spec.mounts):
        wanted = (identity_of("Volume", mount.volume, resource.project), identity_of("Volume", mount.volume))
        yield DocumentReference(("spec", "mounts", index, "volume"), "Volume", mount.volume, wanted)
    for index, name in enumerate(spec.placement.nodes):
        yield from _reference(("spec", "placement", "nodes", index), "Node", name)
    for index, identity in enumerate(spec.depends_on):
        meant = (identity,) if IDENTITY.match(identity) else ()
        yield DocumentReference(("spec", "dependsOn", index), "Session", identity, meant)


def _image(resource: Any) -> Iterator[DocumentReference]:
    spec = resource.spec
    yield from _reference(("spec", "registry"), "Registry", spec.registry)
    if spec.pre_pull is not None:
        for index, name in enumerate(spec.pre_pull.nodes):
            yield from _reference(("spec", "prePull", "nodes", index), "Node", name)
        for index, name in enumerate(spec.pre_pull.resource_groups):
            yield from _reference(("spec", "prePull", "resourceGroups", index), "ResourceGroup", name)


def _notification(resource: Any) -> Iterator[DocumentReference]:
    yield from _cluster(resource)
    for index, name in enumerate(resource.spec.projects):
        yield from _reference(("spec", "projects", index), "Project", name)


def _secret_store(resource: Any) -> Iterator[DocumentReference]:
    for index, name in enumerate(resource.spec.projects):
        if name != EVERYBODY:
            yield from _reference(("spec", "projects", index), "Project", name)


def _policy(resource: Any) -> Iterator[DocumentReference]:
    yield from _cluster(resource)
    for index, name in enumerate(resource.spec.match.projects):
        yield from _reference(("spec", "match", "projects", index), "Project", name)


REFERENCES: Mapping[type[Resource], Callable[[Any], Iterator[DocumentReference]]] = {
    Cluster: _defaults,
    Node: _machine,
    NodePool: _machine,
    ResourceGroup: _group,
    StorageHost: _host,
    Project: _project,
    User: _user,
    Quota: _quota,
    Volume: _volume,
    Session: _session,
    Image: _image,
    AppProxy: _host,
    Notification: _notification,
    SecretStore: _secret_store,
    Policy: _policy,
}


@once_per_value
def _references(resource: Resource) -> tuple[DocumentReference, ...]:
    uses = REFERENCES.get(type(resource))
    return tuple(uses(resource)) if uses else ()


def named_identities(resource: Resource) -> Iterator[str]:
    """All that a document's references may mean."""
    for use in _references(resource):
        yield from use.wanted


class ReferenceIndex:
    """Every identity that can be named: documents (with problems too), pools' nodes, users by e-mail."""

    def __init__(self, repository: Repository, broken: frozenset[str]) -> None:
        self.known = {*repository.resources, *repository.machines, *broken}
        self.known |= {f"User/@{u.spec.email.lower()}" for u in repository.of(User) if u.spec.email}
        self._hints = 0
        self._candidates_by_kind: dict[tuple[str, str | None], set[str]] = {}
        self.emails = {u.spec.email for u in repository.of(User) if u.spec.email}

    def dangling(self, resource: Resource) -> Iterator[Issue]:
        """The references of one resource that name nothing."""
        for use in _references(resource):
            if not any(identity in self.known for identity in use.wanted):
                yield self._issue(use, resource)

    def _issue(self, use: DocumentReference, resource: Resource) -> Issue:
        if use.kind == "Session" and not IDENTITY.match(use.name):
            hint = self._session_hint(use.name, resource)
            return Issue(
                use.at, f"{format_value(use.name)} is not the identity of a session", hint, "BAI-V040"
            )
        hint = self._service_hint(use) or self._hint(use, resource) or f"add a {use.kind} of this name"
        return Issue(use.at, f"there is no {use.kind} {format_value(use.name)}", hint, "BAI-V040")

    def _service_hint(self, use: DocumentReference) -> str:
        ref = ref_of(use.name)
        service = identity_of("Service", ref.name, ref.project) if use.kind == "Session" else ""
        return (
            f"{service} is a service, and sessions wait for sessions alone" if service in self.known else ""
        )

    def _session_hint(self, name: str, resource: Resource) -> str:
        full = identity_of("Session", name.rpartition("/")[2], resource.project)
        return f"did you mean '{full}'?" if full in self.known else "write Session/<project>/<name>"

    def _hint(self, use: DocumentReference, resource: Resource) -> str:
        """What was probably meant; not worked out any more once so much is wrong that nobody reads it."""
        self._hints += 1
        return (
            did_you_mean(use.name, self._cached_candidates(use, resource))
            if self._hints <= MOST_HINTS
            else ""
        )

    def _cached_candidates(self, use: DocumentReference, resource: Resource) -> set[str]:
        key = (use.kind, resource.project)
        if key not in self._candidates_by_kind:
            self._candidates_by_kind[key] = self._candidates(use, resource)
        return self._candidates_by_kind[key]

    def _candidates(self, use: DocumentReference, resource: Resource) -> set[str]:
        if use.kind == "Session":
            return {identity for identity in self.known if ref_of(identity).kind == "Session"}
        words = {
            ref_of(i).name
            for i in self.known
            if ref_of(i).kind == use.kind and "@" not in i and self._is_visible(i, resource)
        }
        return words | (self.emails if use.kind == "User" else set())

    @staticmethod
    def _is_visible(identity: str, resource: Resource) -> bool:
        return ref_of(identity).project in ("", resource.project)


def dependency_cycles(sessions: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Each circle of dependencies once, as the identities along it, from the smallest. Any depth."""
    state: dict[str, int] = {}
    for start in sorted(sessions):
        trail: list[str] = []
        work: list[tuple[str, bool]] = [(start, True)]
        while work:
            node, enter = work.pop()
            if not enter:
                state[node] = 2
                trail.pop()
            elif state.get(node) == 1:
                found = trail[trail.index(node) :]
                first = found.index(min(found))
                yield tuple(found[first:] + found[:first])
            elif node not in state and node in sessions:
                state[node] = 1
                trail.append(node)
                work.append((node, False))
                work.extend((other, True) for other in reversed(sessions[node]))


def dependency_cycle_rules(repository: Repository) -> Iterator[tuple[Session, Issue]]:
    """Every circle in `dependsOn`, reported at the first session of it."""
    waits = {s.identity: s.spec.depends_on for s in repository.of(Session) if s.spec.depends_on}
    for circle in dependency_cycles(waits):
        session = repository.resources[circle[0]]
        assert isinstance(session, Session)
        index = session.spec.depends_on.index(circle[1 % len(circle)])
        text = " → ".join((*circle, circle[0])) if len(circle) > 1 else f"{circle[0]} waits for itself"
        yield (
            session,
            Issue(
                ("spec", "dependsOn", index),
                f"sessions wait for each other: {text}",
                "remove one",
                "BAI-V041",
            ),
        )
