"""Volumes of the documents as folders on nodes. Pure."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from providers.storage.base import TrashedVolume, TrashLocation, VolumeFolder
from reconciler.values.encoding.placement_json import canonical_json
from schemas.kinds.cluster import Cluster
from schemas.kinds.storage import StorageHost, Volume
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
    node = administering_node(repository, host) if host else ""
    if host is None or not node:
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


def _new_owner(repository: Repository, volume: Volume) -> int | None:
    """Sessions run as their project's user."""
    cluster = _user_cluster(repository, volume)
    return repository.uid_of(cluster, volume.project) if cluster and volume.project else None


def _project_users(repository: Repository, volume: Volume) -> tuple[tuple[int, int], ...]:
    """Who else's its folder could be."""
    return tuple(repository.project_uid_ranges(_user_cluster(repository, volume)))


def _user_cluster(repository: Repository, volume: Volume) -> str:
    """The volume's cluster, where sessions are their project's Linux user; empty elsewhere."""
    cluster = repository.resources.get(identity_of("Cluster", repository.cluster_of(volume) or ""))
    return cluster.name if isinstance(cluster, Cluster) and cluster.spec.provider in _AS_USERS else ""


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
    return TrashedVolume(
        folder.volume, f"{stamp}-{name}-{scope}", folder.host, folder.path, at, commit, document
    )


def trash_locations(desired: Desired) -> tuple[TrashLocation, ...]:
    """The trash of every storage host of the cluster that has a node to look after it."""
    hosts = [item for item in desired.resources.values() if isinstance(item, StorageHost)]
    pairs = [(host, administering_node(desired.repository, host)) for host in hosts]
    return tuple(
        TrashLocation(host.name, node, host.spec.root, host.spec.accepted_file_systems)
        for host, node in pairs
        if node
    )
