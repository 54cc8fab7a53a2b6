"""What the loader gives: every resource by identity, where each came from, and how they belong together.

Which cluster, group or host a document that names none belongs to is decided here, once; the loader has
refused whatever would make these questions ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TypeVar

from schemas.images.catalog import ImageCatalog
from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.cluster import Cluster, SessionUids
from schemas.kinds.image import Image, Registry
from schemas.kinds.node import Node, NodePool
from schemas.kinds.notification import Notification
from schemas.kinds.policy import Policy
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.kinds.storage import StorageHost, Volume
from schemas.kinds.tenancy import Project, User
from schemas.problems.problem import Problem, SourceLocation
from schemas.profile import NodeProfile
from schemas.repository.declared_stores import NO_STORES, DeclaredStores
from schemas.values.envelope import Resource
from schemas.values.linux_users import FIRST_REGULAR_ID
from schemas.values.resource_ref import identity_of

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True)
class Repository:
    """All resources of one directory or commit."""

    resources: Mapping[str, Resource]
    """By identity, sorted."""
    locations: Mapping[str, SourceLocation]
    """Where each document begins."""
    machines: Mapping[str, Node] = field(default_factory=dict)
    """Every node by identity: documents and expanded pools, with `hardwareFrom` read into `hardware`."""
    commit: str = ""
    """Full hash of the commit; empty for a directory."""
    warnings: tuple[Problem, ...] = ()
    """Accepted, yet worth saying."""
    stores: DeclaredStores = NO_STORES
    """The secret stores of its documents, and of the owner."""
    patterns: Mapping[str, Session] = field(default_factory=dict)
    """By the identity of a service, sorted: the session of its name that its replicas are like. None of them
    is among the resources."""

    def has_same_content(self, other: Repository) -> bool:
        """Whether both say the same, with all that they rest on."""
        return (self.resources, self.stores) == (other.resources, other.stores)

    def of(self, kind: type[R]) -> Iterator[R]:
        """The resources of one kind, by name."""
        found: list[R] = self._by_kind.get(kind, [])  # type: ignore[assignment]
        return iter(found)

    @cached_property
    def without_sessions(self) -> tuple[Resource, ...]:
        """All that is neither a session nor a service, kind by kind: on which sessions rest."""
        kinds = self._by_kind.items()
        return tuple(item for kind, each in kinds if kind not in (Session, Service) for item in each)

    @cached_property
    def _by_kind(self) -> dict[type[Resource], list[Resource]]:
        kinds: dict[type[Resource], list[Resource]] = {}
        for item in self.resources.values():
            kinds.setdefault(type(item), []).append(item)
        return kinds

    def cluster_of(self, resource: Resource) -> str | None:
        """Name of the cluster that a resource belongs to; None for what is of the whole repository."""
        if isinstance(resource, Session | Service):
            group = self.group_of(resource)
            return self.cluster_of(group) if group else None
        if isinstance(resource, Cluster):
            return resource.name
        if isinstance(resource, Node | NodePool | ResourceGroup | StorageHost | AppProxy):
            return resource.spec.cluster or self._only_name(Cluster)
        if isinstance(resource, Notification | Policy):
            return resource.spec.cluster
        if isinstance(resource, Volume):
            host = self.host_of(resource)
            return self.cluster_of(host) if host else None
        return None

    def app_proxy_of(self, cluster: str) -> AppProxy | None:
        """Where apps of a cluster's sessions are."""
        return self._app_proxies.get(cluster)

    @cached_property
    def _app_proxies(self) -> Mapping[str | None, AppProxy]:
        return {self.cluster_of(proxy): proxy for proxy in reversed(list(self.of(AppProxy)))}

    @cached_property
    def apps_by_port(self) -> Mapping[tuple[str | None, int], Sequence[tuple[str, str]]]:
        """Cluster and port of its AppProxy's host → the apps whose documents name it: identity of the session
        or service, and the app's name."""
        found: dict[tuple[str | None, int], list[tuple[str, str]]] = {}
        sessions = ((each.identity, each) for each in self.of(Session))
        for identity, session in (*sessions, *self.patterns.items()):
            for name, rules in session.spec.apps.items():
                if isinstance(rules.port, int):
                    key = self.cluster_of(session), rules.port
                    found.setdefault(key, []).append((identity, name))
        return found

    def group_of(self, session: Session | Service) -> ResourceGroup | None:
        """The group that a session, or each replica of a service, queues in: its choice, the only cluster's
        default, or the only group."""
        if isinstance(session, Service):
            pattern = self.patterns.get(session.identity)
            return self.group_of(pattern) if pattern is not None else None
        return self._groups_by_name.get(session.spec.resource_group or self._usual_group_name or "")

    @cached_property
    def _groups_by_name(self) -> dict[str, ResourceGroup]:
        return {group.name: group for group in self.of(ResourceGroup)}

    def group_of_node(self, node: Node) -> str | None:
        """Name of the group that a node belongs to; None when no group takes it."""
        if node.spec.resource_group:
            return node.spec.resource_group
        names = self.groups_matching(node)
        return names[0] if len(names) == 1 else None

    def groups_matching(self, node: Node) -> list[str]:
        """Names of the groups that take a node that names none; a cluster's only group needs no selector."""
        groups = self._groups_by_cluster.get(self.cluster_of(node), [])
        if len(groups) == 1 and not groups[0].spec.node_selector:
            return [groups[0].name]
        labels = {**node.metadata.labels, **node.spec.labels}
        return [
            g.name for g in groups if g.spec.node_selector and g.spec.node_selector.items() <= labels.items()
        ]

    @cached_property
    def _groups_by_cluster(self) -> dict[str | None, list[ResourceGroup]]:
        clusters: dict[str | None, list[ResourceGroup]] = {}
        for group in self.of(ResourceGroup):
            clusters.setdefault(self.cluster_of(group), []).append(group)
        return clusters

    def nodes_of(self, cluster: str) -> tuple[Node, ...]:
        """Every machine of a cluster, by name."""
        return tuple(node for node in self.machines.values() if self.cluster_of(node) == cluster)

    def profile_of(self, node: Node) -> NodeProfile | None:
        """The profile that a node is brought to: its own before its cluster's; None without any."""
        if NodeProfile not in self._by_kind:
            return None
        cluster = self.resources.get(identity_of("Cluster", self.cluster_of(node) or ""))
        default = cluster.spec.profile if isinstance(cluster, Cluster) else None
        found = self.resources.get(identity_of("NodeProfile", node.spec.profile or default or ""))
        return found if isinstance(found, NodeProfile) else None

    def host_of(self, volume: Volume) -> StorageHost | None:
        """The storage host of a volume."""
        found = self.resources.get(
            identity_of("StorageHost", volume.spec.host or self._only_name(StorageHost) or "")
        )
        return found if isinstance(found, StorageHost) else None

    @cached_property
    def volumes_by_path(self) -> Mapping[PurePosixPath, Sequence[tuple[str, StorageHost]]]:
        """Absolute folder → the volumes that have it, on whichever machine, with their hosts."""
        places: dict[PurePosixPath, list[tuple[str, StorageHost]]] = {}
        for volume in self.of(Volume):
            host = self.host_of(volume)
            if host is not None and host.spec.base is not None:
                place = host.spec.base / volume.path
                places.setdefault(place, []).append((volume.identity, host))
        return places

    @cached_property
    def hosts_by_base(self) -> Mapping[PurePosixPath, Sequence[StorageHost]]:
        """Folder below which volumes lie → the storage hosts whose it is."""
        found: dict[PurePosixPath, list[StorageHost]] = {}
        for host in self.of(StorageHost):
            if host.spec.base is not None:
                found.setdefault(host.spec.base, []).append(host)
        return found

    def user_of(self, reference: str | None) -> User | None:
        """The user that an owner's name or e-mail address means."""
        return self._users_by_name.get((reference or "").lower())

    @cached_property
    def _users_by_name(self) -> dict[str, User]:
        named = {user.name: user for user in self.of(User)}
        return {user.spec.email.lower(): user for user in self.of(User) if user.spec.email} | named

    def uid_of(self, cluster: str, project: str) -> int:
        """The Linux user that a project's sessions on a cluster run as."""
        document = self.resources.get(identity_of("Project", project))
        if isinstance(document, Project) and document.spec.uid is not None:
            return document.spec.uid
        return self.session_uids(cluster).uid_for(project)

    def session_uids(self, cluster: str) -> SessionUids:
        """The numbers that a cluster's projects draw theirs from."""
        found = self.resources.get(identity_of("Cluster", cluster))
        return found.spec.session_uids if isinstance(found, Cluster) else SessionUids()

    def project_uid_ranges(self, cluster: str) -> Sequence[tuple[int, int]]:
        """Linux users that are projects', also of projects that are gone or to come: first and last of each
        range."""
        return self._project_users.get(cluster, ())

    @cached_property
    def _project_users(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        found = {}
        for cluster in self.of(Cluster):
            drawn = cluster.spec.session_uids
            said = {project.spec.uid for project in self.of(Project) if project.spec.uid is not None}
            own = ((uid, uid) for uid in sorted(said) if not drawn.first <= uid <= drawn.last)
            found[cluster.name] = ((drawn.first, drawn.last), *own)
        return found

    @cached_property
    def projects_by_uid(self) -> Mapping[tuple[str, int], str]:
        """Cluster and Linux user → the first project that has it there."""
        found: dict[tuple[str, int], str] = {}
        for cluster in self.of(Cluster):
            for project in self.of(Project):
                found.setdefault((cluster.name, self.uid_of(cluster.name, project.name)), project.name)
        return found

    def projects_by_id(self, cluster: str) -> Mapping[int, Sequence[str]]:
        """Linux user or group → the projects that it is of, by themselves or by their volumes."""
        return self._projects_by_id.get(cluster, {})

    def other_project_with_id(self, cluster: str, number: int, project: str | None) -> str | None:
        """A project but this one that a Linux user or group is of."""
        return next((each for each in self.projects_by_id(cluster).get(number, ()) if each != project), None)

    @cached_property
    def _projects_by_id(self) -> Mapping[str, Mapping[int, Sequence[str]]]:
        found: dict[str, dict[int, dict[str, None]]] = {cluster.name: {} for cluster in self.of(Cluster)}
        for (cluster, uid), project in self.projects_by_uid.items():
            found[cluster].setdefault(uid, {})[project] = None
        for volume in self.of(Volume):
            numbers = found.get(self.cluster_of(volume) or "", {})
            for number in (volume.spec.uid, volume.spec.gid):
                if number is not None and number >= FIRST_REGULAR_ID and volume.project:
                    numbers.setdefault(number, {})[volume.project] = None
        return {
            cluster: {number: tuple(projects) for number, projects in numbers.items()}
            for cluster, numbers in found.items()
        }

    def volume_of(self, session: Session, name: str) -> Volume | None:
        """The volume that a session's mount means: the project's own before one without a project."""
        for identity in (identity_of("Volume", name, session.project), identity_of("Volume", name)):
            found = self.resources.get(identity)
            if isinstance(found, Volume):
                return found
        return None

    @cached_property
    def images(self) -> ImageCatalog:
        """Its Image and Registry documents."""
        images = {image.name: image for image in self.of(Image)}
        return ImageCatalog(images, {registry.name: registry for registry in self.of(Registry)})

    @cached_property
    def _usual_group_name(self) -> str | None:
        """The only cluster's default, or the only group."""
        clusters = list(self.of(Cluster))
        default = clusters[0].spec.defaults.resource_group if len(clusters) == 1 else None
        return default or self._only_name(ResourceGroup)

    def _only_name(self, kind: type[Resource]) -> str | None:
        found = self._by_kind.get(kind, [])
        return found[0].name if len(found) == 1 else None
