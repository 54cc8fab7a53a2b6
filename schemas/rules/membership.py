"""What the documents of one repository must fulfil together: who belongs where must be clear, and allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.cluster import Cluster
from schemas.kinds.image import Image, Registry
from schemas.kinds.node import Node, NodePool
from schemas.kinds.policy import Policy
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.kinds.storage import StorageHost, Volume
from schemas.kinds.tenancy import Domain, Project, User
from schemas.problems.issues import Issue, Loc
from schemas.repository.repository import Repository
from schemas.repository.storage_nodes import nodes_with_host, nodes_with_volumes
from schemas.rules import volume_rules
from schemas.rules.container_user import user_rules
from schemas.rules.image_rules import (
    default_image_rules,
    duplicate_image_rules,
    duplicate_registry_rules,
    session_image_rules,
)
from schemas.rules.pods.sessions import pod_rules
from schemas.rules.pods.volumes import pod_host_rules, pod_mount_rules, pod_volume_rules
from schemas.rules.policy_rules import policy_count_rules
from schemas.rules.profile_rules import machine_issues
from schemas.rules.sessions.app_rules import app_proxy_rules, session_app_rules
from schemas.rules.sessions.request_rules import (
    hugepage_rules,
    largest_part_rules,
    least_cpu_rules,
    scratch_rules,
)
from schemas.values.envelope import Resource
from schemas.values.once_per_value import last_per_value
from schemas.values.resource_ref import identity_of


class OtherDocuments:
    """A repository without its sessions and services, on which the rules for one session rest: what other
    sessions say counts for none. It is the same object while nothing of it has changed."""

    def __init__(self, repository: Repository) -> None:
        found = repository.resources.items()
        resources = {i: item for i, item in found if not isinstance(item, Session | Service)}
        self.repository = replace(repository, resources=resources, locations={}, patterns={})


@last_per_value
def session_issues(session: Session, others: OtherDocuments) -> tuple[Issue, ...]:
    """Every rule that a session breaks among the other documents. Its references are known to exist."""
    return tuple(check_membership(others.repository, session))


def check_membership(repository: Repository, resource: Resource) -> Iterator[Issue]:
    """Every rule that this document breaks among the others. Its references are known to exist."""
    if isinstance(resource, Node | NodePool | ResourceGroup | StorageHost | AppProxy):
        yield from _unambiguous_rules(repository, resource.spec.cluster, Cluster, ("spec", "cluster"))
    if isinstance(resource, Node | NodePool):
        yield from machine_issues(repository, resource)
    if isinstance(resource, Node):
        yield from _node_group_rules(repository, resource)
    elif isinstance(resource, Project):
        domains = len(list(repository.of(Domain)))
        if domains > 1:
            yield from _unambiguous_rules(repository, resource.spec.domain, Domain, ("spec", "domain"))
        yield from _unique_uid_rules(repository, resource)
    elif isinstance(resource, StorageHost):
        yield from _storage_node_rules(repository, resource)
        yield from pod_host_rules(repository, resource)
    elif isinstance(resource, Volume):
        yield from _unambiguous_rules(repository, resource.spec.host, StorageHost, ("spec", "host"))
        yield from _owner_rules(repository, resource)
        yield from volume_rules.overlap_rules(repository, resource)
        yield from volume_rules.volume_id_rules(repository, resource)
        yield from pod_volume_rules(repository, resource)
    elif isinstance(resource, Session):
        yield from _session_rules(repository, resource)
    elif isinstance(resource, Image):
        yield from duplicate_image_rules(repository, resource)
    elif isinstance(resource, Cluster):
        yield from default_image_rules(repository, resource)
    elif isinstance(resource, Registry):
        yield from duplicate_registry_rules(repository, resource)
    elif isinstance(resource, Policy):
        yield from policy_count_rules(repository, resource)
    elif isinstance(resource, AppProxy):
        yield from app_proxy_rules(repository, resource)


def _unambiguous_rules(
    repository: Repository, named: str | None, kind: type[Resource], at: Loc
) -> Iterator[Issue]:
    """A reference that is left out needs exactly one that it can mean."""
    if named is not None:
        return
    names = [item.name for item in repository.of(kind)]
    if not names:
        yield Issue(
            at,
            f"there is no {kind.__name__} in the repository",
            f"add a document of kind {kind.__name__}",
            "BAI-V043",
        )
    elif len(names) > 1:
        yield Issue(
            at, f"which {kind.singular} is not said", f"name one of {', '.join(names[:8])}", "BAI-V043"
        )


def _unique_uid_rules(repository: Repository, project: Project) -> Iterator[Issue]:
    """Sessions of two projects with one user could read and stop each other; the later project is told."""
    for cluster in repository.of(Cluster):
        uid = repository.uid_of(cluster.name, project.name)
        other = repository.projects_by_uid[cluster.name, uid]
        if other != project.name:
            message = f"user {uid} is the one of Project/{other} already"
            yield Issue(("spec", "uid"), message, "give each project a number of its own", "BAI-V050")
            return


def _node_group_rules(repository: Repository, node: Node) -> Iterator[Issue]:
    at: Loc = ("spec", "resourceGroup")
    if node.spec.resource_group:
        group = repository.resources.get(identity_of("ResourceGroup", node.spec.resource_group))
        if group and repository.cluster_of(group) != repository.cluster_of(node):
            message = f"the group '{group.name}' is of cluster '{repository.cluster_of(group)}'"
            yield Issue(at, message, "a node and its group are of one cluster", "BAI-V050")
        return
    matching = repository.groups_matching(node)
    if len(matching) > 1:
        hint = f"name one of {', '.join(matching[:8])}"
        yield Issue(at, f"{len(matching)} resource groups select this node", hint, "BAI-V043")


def _storage_node_rules(repository: Repository, host: StorageHost) -> Iterator[Issue]:
    cluster = repository.cluster_of(host)
    if cluster and repository.nodes_of(cluster) and nodes_with_host(repository, host) == ():
        message = "a local disk is on one node, and which is not said"
        yield Issue(("spec", "node"), message, "name the node", "BAI-V043")
    node = repository.machines.get(identity_of("Node", host.spec.node or ""))
    if node is not None and repository.cluster_of(node) != repository.cluster_of(host):
        message = f"the node is of cluster '{repository.cluster_of(node)}'"
        yield Issue(("spec", "node"), message, "name one of the storage host's cluster", "BAI-V050")


def _session_rules(repository: Repository, session: Session) -> Iterator[Issue]:
    yield from _owner_rules(repository, session)
    group = repository.group_of(session)
    if group is None:
        yield from _unambiguous_rules(
            repository, session.spec.resource_group, ResourceGroup, ("spec", "resourceGroup")
        )
        return
    yield from scratch_rules(session, group)
    yield from least_cpu_rules(session, group)
    yield from largest_part_rules(session, group)
    cluster: Any = repository.resources.get(identity_of("Cluster", repository.cluster_of(group) or ""))
    if cluster is not None:
        yield from _command_rules(session, cluster)
        yield from _mount_rules(repository, session, cluster)
        yield from session_image_rules(repository, session, cluster)
        yield from user_rules(repository, session, group)
        yield from hugepage_rules(session, cluster)
        yield from pod_rules(session, group, cluster)
        yield from pod_mount_rules(repository, session)
        yield from session_app_rules(repository, session, repository.app_proxy_of(cluster.name))


def _command_rules(session: Session, cluster: Cluster) -> Iterator[Issue]:
    """A native process has no image that would say what to run."""
    if cluster.spec.provider != "process":
        return
    for container in session.spec.containers:
        if not container.command:
            message = f"{container.name} has no command, and the process provider has no image that names one"
            yield Issue(("spec", "command"), message, "write command: [program, argument]", "BAI-V021")
            return


def _mount_rules(repository: Repository, session: Session, cluster: Cluster) -> Iterator[Issue]:
    there, asked = nodes_with_volumes(repository, session), set(session.spec.placement.nodes)
    if there is not None and not (there & asked if asked else there):
        message = "no node that it may run on has the disks of all its volumes"
        hint = f"they are on {', '.join(sorted(there))}" if there else "mount volumes of one local disk"
        yield Issue(("spec", "mounts"), message, hint, "BAI-V050")
    for index, mount in enumerate(session.spec.mounts):
        volume = repository.volume_of(session, mount.volume)
        host = repository.host_of(volume) if volume else None
        if host is not None and repository.cluster_of(host) != cluster.name:
            where = f"'{host.name}' of cluster '{repository.cluster_of(host)}'"
            message = f"the volume is on {where}, the session runs on '{cluster.name}'"
            yield Issue(("spec", "mounts", index, "volume"), message, code="BAI-V050")
        elif volume is not None and not _may_mount(repository, session, volume, mount.read_only):
            how = "reading" if mount.read_only else "writing"
            hint = (
                ""
                if mount.read_only or not _may_mount(repository, session, volume, True)
                else "mount it with readOnly: true"
            )
            yield Issue(
                ("spec", "mounts", index, "volume"),
                f"{volume.identity} is not shared for {how}",
                hint,
                "BAI-V053",
            )
        elif volume is not None:
            yield from volume_rules.volume_group_rules(
                repository, session, volume, ("spec", "mounts", index, "volume")
            )


def _may_mount(repository: Repository, session: Session, volume: Volume, read_only: bool) -> bool:
    """Whether a session may mount a volume so: its owner, whom permissions name, or without any everybody."""
    owner = repository.user_of(session.spec.owner)
    if not volume.spec.permissions or (owner is not None and owner == repository.user_of(volume.spec.owner)):
        return True
    for allowed in volume.spec.permissions:
        meant = (
            allowed.project == session.project
            if allowed.project
            else repository.user_of(allowed.user) == owner is not None
        )
        if meant and (read_only or allowed.access == "read-write"):
            return True
    return False


def _owner_rules(repository: Repository, resource: Session | Volume) -> Iterator[Issue]:
    """An owner is active and belongs to the project."""
    user: User | None = repository.user_of(resource.spec.owner)
    if user is None:
        return
    if not user.spec.active:
        yield Issue(
            ("spec", "owner"), f"the user '{user.name}' is not active", "name another owner", "BAI-V053"
        )
    elif resource.project is not None and resource.project not in user.spec.projects:
        hint = f"add it to the projects of User/{user.name}"
        yield Issue(
            ("spec", "owner"),
            f"'{user.name}' does not belong to the project '{resource.project}'",
            hint,
            "BAI-V053",
        )
