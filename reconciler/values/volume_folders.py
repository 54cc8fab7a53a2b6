"""Volumes of the documents as folders on nodes. Pure."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from providers.storage.base import TrashedVolume, TrashLocation, VolumeClaim, VolumeFolder
from reconciler.values.encoding.placement_json import canonical_json
from schemas.kinds.cluster import Cluster
from schemas.kinds.storage import StorageHost, Volume
from schemas.kinds.tenancy import Project
from schemas.repository.storage_nodes import administering_node
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from reconciler.values.state import Actual, Desired
    from schemas.repository.repository import Repository

R = TypeVar("R", Volume, StorageHost)
_AS_USERS = frozenset({"process", "docker"})
"""Providers whose sessions are their project's Linux user."""


def volume_folders(desired: Desired) -> dict[str, VolumeFolder]:
    """The folder of every volume of the cluster, by identity."""
    found = {}
    for identity, item in desired.resources.items():
        if isinstance(item, Volume) and (folder := folder_of(desired.repository, item)):
            found[identity] = folder
    return found


def folder_of(repository: Repository, volume: Volume, host: StorageHost | None = None) -> VolumeFolder | None:
    """None where no storage host or node is known for it."""
    host = host or repository.host_of(volume)
    cluster = _cluster_of(repository, host) if host else None
    if host is not None and cluster is not None and cluster.spec.provider == "kubernetes":
        return _pod_folder(repository, cluster, volume, host)
    node = administering_node(repository, host) if host else ""
    if host is None or host.spec.root is None or not node:
        return None
    spec = volume.spec
    return VolumeFolder(
        volume=volume.identity,
        node=node,
        root=host.spec.root,
        path=volume.path,
        file_systems=host.spec.accepted_file_systems,
        uid=spec.uid,
        gid=spec.gid,
        new_owner=_new_owner(repository, volume),
        projects=_project_users(repository, volume),
        mode=None if spec.mode is None else int(spec.mode, 8),
        quota=spec.quota,
        host=host.name,
    )


def _pod_folder(repository: Repository, cluster: Cluster, volume: Volume, host: StorageHost) -> VolumeFolder:
    """What pods mount, where no node is in anybody's care."""
    kubernetes, base, claims = cluster.spec.kubernetes, host.spec.base, host.spec.pvc
    shared = "" if kubernetes.several_namespaces else kubernetes.namespace
    namespace = kubernetes.namespace_of(volume.project) if volume.project else shared
    nfs = host.spec.nfs
    return VolumeFolder(
        volume=volume.identity,
        node="",
        root=nfs.path if nfs is not None else str(base) if base is not None else "",
        path=volume.path if claims is None else "",
        new_owner=repository.uid_of(cluster.name, volume.project) if volume.project else None,
        host=host.name,
        namespace=namespace,
        server=nfs.server if nfs is not None else "",
        claim=None
        if claims is None
        else VolumeClaim(
            namespace,
            volume.claim_name,
            claims.access_modes,
            volume.spec.size or claims.size or 0,
            claims.storage_class,
        ),
    )


def _cluster_of(repository: Repository, resource: StorageHost | Volume) -> Cluster | None:
    found = repository.resources.get(identity_of("Cluster", repository.cluster_of(resource) or ""))
    return found if isinstance(found, Cluster) else None


def _new_owner(repository: Repository, volume: Volume) -> int | None:
    """Sessions run as their project's user."""
    cluster = _user_cluster(repository, volume)
    return repository.uid_of(cluster, volume.project) if cluster and volume.project else None


def _project_users(repository: Repository, volume: Volume) -> tuple[tuple[int, int], ...]:
    """Who else's its folder could be."""
    return tuple(repository.project_uid_ranges(_user_cluster(repository, volume)))


def _user_cluster(repository: Repository, volume: Volume) -> str:
    """The volume's cluster, where sessions are their project's Linux user; empty elsewhere."""
    cluster = _cluster_of(repository, volume)
    return cluster.name if cluster is not None and cluster.spec.provider in _AS_USERS else ""


def recorded_folder(desired: Desired, actual: Actual, identity: str) -> VolumeFolder | None:
    """The folder of a volume as it was applied last, its document or storage host being gone perhaps."""
    existing = actual.existing.get(identity)
    volume = _recorded_document(Volume, existing.recorded.document if existing else {})
    if volume is None:
        return None
    hosts = (
        [identity_of("StorageHost", volume.spec.host)]
        if volume.spec.host
        else _storage_hosts(desired, actual)
    )
    documents = [actual.existing[name].recorded.document for name in hosts if name in actual.existing]
    recorded = [host for document in documents if (host := _recorded_document(StorageHost, document))]
    known = [item for name in hosts if isinstance(item := desired.resources.get(name), StorageHost)]
    found = recorded or known
    return folder_of(desired.repository, volume, found[0]) if len(found) == 1 else None


def _storage_hosts(desired: Desired, actual: Actual) -> list[str]:
    recorded = [name for name in actual.existing if ref_of(name).kind == "StorageHost"]
    return recorded or [name for name in desired.resources if ref_of(name).kind == "StorageHost"]


def _recorded_document(kind: type[R], document: Mapping[str, object]) -> R | None:
    try:
        return kind.model_validate_json(canonical_json(document))
    except ValidationError:
        return None


def trash_entry(
    folder: VolumeFolder, document: Mapping[str, object], at: float, commit: str
) -> TrashedVolume:
    """The record of a volume that is moved aside at a time; named so that entries sort by it."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    scope = hashlib.sha256(f"{folder.volume}@{folder.source}".encode()).hexdigest()[:8]
    name = ref_of(folder.volume).name
    claim = folder.claim
    path = folder.path if claim is None else f"{claim.namespace}/{claim.name}"
    return TrashedVolume(folder.volume, f"{stamp}-{name}-{scope}", folder.host, path, at, commit, document)


def trash_locations(desired: Desired) -> tuple[TrashLocation, ...]:
    """The trash of every storage host of the cluster that has a node, or Kubernetes, to look after it."""
    hosts = [item for item in desired.resources.values() if isinstance(item, StorageHost)]
    claims = tuple(
        TrashLocation(host.name, "", "", namespaces=_namespaces(desired, host))
        for host in hosts
        if host.spec.pvc is not None
    )
    pairs = [(host, administering_node(desired.repository, host)) for host in hosts]
    folders = tuple(
        TrashLocation(host.name, node, host.spec.root, host.spec.accepted_file_systems)
        for host, node in pairs
        if node and host.spec.root is not None and not _is_of_pods(desired, host)
    )
    return (*folders, *claims)


def _is_of_pods(desired: Desired, host: StorageHost) -> bool:
    cluster = _cluster_of(desired.repository, host)
    return cluster is not None and cluster.spec.provider == "kubernetes"


def _namespaces(desired: Desired, host: StorageHost) -> tuple[str, ...]:
    """In which there may be claims of its volumes: those of the projects that are there."""
    cluster = _cluster_of(desired.repository, host)
    if cluster is None:
        return ()
    kubernetes = cluster.spec.kubernetes
    if not kubernetes.several_namespaces:
        return (kubernetes.namespace,)
    return tuple(kubernetes.namespace_of(project.name) for project in desired.repository.of(Project))
