"""What names what: every reference of every kind, found dangling, ambiguous or circular."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
from schemas.problems.text import did_you_mean, shown
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource

MOST_HINTS = 200
IDENTITY = re.compile(r"Session/[a-z0-9-]+/[a-z0-9-]+\Z")


@dataclass(frozen=True, slots=True)
class Use:
    """One reference: where it stands, what kind it names, how it is written, which identities satisfy it."""

    at: Loc
    kind: str
    name: str
    wanted: tuple[str, ...]


def _use(at: Loc, kind: str, name: str | None) -> Iterator[Use]:
    if name is not None:
        yield Use(at, kind, name, (f"{kind}/{name}",))


def _cluster(resource: Any) -> Iterator[Use]:
    yield from _use(("spec", "cluster"), "Cluster", resource.spec.cluster)


def _defaults(cluster: Any) -> Iterator[Use]:
    yield from _use(
        ("spec", "defaults", "resourceGroup"), "ResourceGroup", cluster.spec.defaults.resource_group
    )
    yield from _use(("spec", "profile"), "NodeProfile", cluster.spec.profile)


def _machine(resource: Any) -> Iterator[Use]:
    spec: MachineSpec = resource.spec
    yield from _cluster(resource)
    yield from _use(("spec", "resourceGroup"), "ResourceGroup", spec.resource_group)
    yield from _use(("spec", "profile"), "NodeProfile", spec.profile)


def _group(resource: Any) -> Iterator[Use]:
    yield from _cluster(resource)
    for index, name in enumerate(resource.spec.allowed_projects or ()):
        yield from _use(("spec", "allowedProjects", index), "Project", name)
    for key in resource.spec.queue_options.weights:
        kind, _, name = key.partition("/")
        yield from _use(("spec", "queueOptions", "weights", key), kind.capitalize(), name)
    for number, kept in enumerate(resource.spec.reservations):
        for index, name in enumerate(kept.projects):
            yield from _use(("spec", "reservations", number, "projects", index), "Project", name)
        for index, name in enumerate(kept.nodes):
            yield from _use(("spec", "reservations", number, "nodes", index), "Node", name)


def _host(resource: Any) -> Iterator[Use]:
    yield from _cluster(resource)
    yield from _use(("spec", "node"), "Node", resource.spec.node)


def _project(resource: Any) -> Iterator[Use]:
    yield from _use(("spec", "domain"), "Domain", resource.spec.domain)


def _user(resource: Any) -> Iterator[Use]:
    for index, name in enumerate(resource.spec.projects):
        yield from _use(("spec", "projects", index), "Project", name)


def _quota(resource: Any) -> Iterator[Use]:
    kind, name = resource.spec.subject.kind_and_name
    yield from _use(("spec", "subject", kind), kind.capitalize(), name)
    yield from _use(("spec", "resourceGroup"), "ResourceGroup", resource.spec.resource_group)


def _owner(at: Loc, name: str | None) -> Iterator[Use]:
    if name is not None:
        yield Use(at, "User", name, (f"User/{name}", f"User/@{name.lower()}"))


def _volume(resource: Any) -> Iterator[Use]:
    yield from _use(("metadata", "project"), "Project", resource.project)
    yield from _use(("spec", "host"), "StorageHost", resource.spec.host)
    yield from _owner(("spec", "owner"), resource.spec.owner)
    for index, allowed in enumerate(resource.spec.permissions):
        yield from _owner(("spec", "permissions", index, "user"), allowed.user)
        yield from _use(("spec", "permissions", index, "project"), "Project", allowed.project)


def _session(resource: Any) -> Iterator[Use]:
    spec = resource.spec
    yield from _use(("metadata", "project"), "Project", resource.project)
    yield from _use(("spec", "resourceGroup"), "ResourceGroup", spec.resource_group)
    yield from _owner(("spec", "owner"), spec.owner)
    for index, mount in enumerate(spec.mounts):
        wanted = (f"Volume/{resource.project}/{mount.volume}", f"Volume/{mount.volume}")
        yield Use(("spec", "mounts", index, "volume"), "Volume", mount.volume, wanted)
    for index, name in enumerate(spec.placement.nodes):
        yield from _use(("spec", "placement", "nodes", index), "Node", name)
    for index, identity in enumerate(spec.depends_on):
        yield Use(("spec", "dependsOn", index), "Session", identity, (identity,))


def _image(resource: Any) -> Iterator[Use]:
    spec = resource.spec
    yield from _use(("spec", "registry"), "Registry", spec.registry)
    if spec.pre_pull is not None:
        for index, name in enumerate(spec.pre_pull.nodes):
            yield from _use(("spec", "prePull", "nodes", index), "Node", name)
        for index, name in enumerate(spec.pre_pull.resource_groups):
            yield from _use(("spec", "prePull", "resourceGroups", index), "ResourceGroup", name)


def _notification(resource: Any) -> Iterator[Use]:
    yield from _cluster(resource)
    for index, name in enumerate(resource.spec.projects):
        yield from _use(("spec", "projects", index), "Project", name)


def _secret_store(resource: Any) -> Iterator[Use]:
    for index, name in enumerate(resource.spec.projects):
        if name != EVERYBODY:
            yield from _use(("spec", "projects", index), "Project", name)


def _policy(resource: Any) -> Iterator[Use]:
    yield from _cluster(resource)
    for index, name in enumerate(resource.spec.match.projects):
        yield from _use(("spec", "match", "projects", index), "Project", name)


USES: Mapping[type[Resource], Callable[[Any], Iterator[Use]]] = {
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
    Notification: _notification,
    SecretStore: _secret_store,
    Policy: _policy,
}


class Names:
    """Every identity that can be named: documents (with problems too), pools' nodes, users by e-mail."""

    def __init__(self, repository: Repository, broken: frozenset[str]) -> None:
        self.known = {*repository.resources, *repository.machines, *broken}
        self.known |= {f"User/@{u.spec.email.lower()}" for u in repository.of(User) if u.spec.email}
        self._hints = 0
        self._words_of: dict[tuple[str, str | None], set[str]] = {}
        self.emails = {u.spec.email for u in repository.of(User) if u.spec.email}

    def dangling(self, resource: Resource) -> Iterator[Issue]:
        """The references of one resource that name nothing."""
        uses = USES.get(type(resource))
        for use in uses(resource) if uses else ():
            if not any(identity in self.known for identity in use.wanted):
                yield self._issue(use, resource)

    def _issue(self, use: Use, resource: Resource) -> Issue:
        if use.kind == "Session" and not IDENTITY.match(use.name):
            hint = self._near_session(use.name, resource)
            return Issue(use.at, f"{shown(use.name)} is not the identity of a session", hint, "BAI-V040")
        hint = self._hint(use, resource) or f"add a {use.kind} of this name"
        return Issue(use.at, f"there is no {use.kind} {shown(use.name)}", hint, "BAI-V040")

    def _near_session(self, name: str, resource: Resource) -> str:
        full = f"Session/{resource.project}/{name.rpartition('/')[2]}"
        return f"did you mean '{full}'?" if full in self.known else "write Session/<project>/<name>"

    def _hint(self, use: Use, resource: Resource) -> str:
        """What was probably meant; not worked out any more once so much is wrong that nobody reads it."""
        self._hints += 1
        return did_you_mean(use.name, self._known(use, resource)) if self._hints <= MOST_HINTS else ""

    def _known(self, use: Use, resource: Resource) -> set[str]:
        key = (use.kind, resource.project)
        if key not in self._words_of:
            self._words_of[key] = self._words(use, resource)
        return self._words_of[key]

    def _words(self, use: Use, resource: Resource) -> set[str]:
        if use.kind == "Session":
            return {identity for identity in self.known if identity.startswith("Session/")}
        words = {
            i.split("/")[-1]
            for i in self.known
            if i.startswith(f"{use.kind}/") and "@" not in i and self._reachable(i, resource)
        }
        return words | (self.emails if use.kind == "User" else set())

    @staticmethod
    def _reachable(identity: str, resource: Resource) -> bool:
        parts = identity.split("/")
        return len(parts) == 2 or parts[1] == resource.project


def cycles(sessions: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
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


def circular(repository: Repository) -> Iterator[tuple[Session, Issue]]:
    """Every circle in `dependsOn`, reported at the first session of it."""
    waits = {s.identity: s.spec.depends_on for s in repository.of(Session) if s.spec.depends_on}
    for circle in cycles(waits):
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
