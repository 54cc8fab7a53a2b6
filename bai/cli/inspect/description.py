"""Everything known about one resource, gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.cli.inspect.resource_list import find_waits
from bai.cli.nodes.profile_view import node_document, profile_facts, source_document
from bai.cli.resource_names import resolve_name
from bai.render.resources.describe import Description
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from planner.model.types import NodeInfo
    from providers.storage.base import FolderState, Storage, VolumeFolder
    from reconciler.store.store import Store
    from reconciler.values.records import Event
    from reconciler.values.state import Actual, Desired
    from reconciler.workspace.workspace import Workspace

EVENTS = 20


def describe_resource(workspace: Workspace, name: str) -> Description:
    """Raises NoSuchResource, AmbiguousName, and what opening store and provider raises."""
    desired, actual = workspace.desired(), workspace.actual()
    nodes = [identity_of("Node", node.metadata.name) for node in desired.repository.nodes_of(desired.cluster)]
    identity = resolve_name(name, {*desired.digests, *actual.existing, *nodes})
    item = actual.existing.get(identity)
    source = source_document(desired.repository, identity)
    place = desired.repository.locations.get(source.identity) if source else None
    machine = desired.repository.machines.get(identity)
    folder, seen = _volume_folder(desired, workspace.storage, identity)
    pending = item is not None and item.phase == "PENDING"
    waits = find_waits(workspace, actual) if pending else {}
    return Description(
        id=identity,
        place=str(place) if place else "",
        document=desired.documents.get(identity)
        or (item.recorded.document if item else {})
        or (node_document(machine) if machine else {}),
        digest=desired.digests.get(identity, ""),
        item=item,
        events=_events(workspace.existing_store, desired.cluster, identity),
        wait=waits.get(identity),
        node=_node_info(identity, desired, actual),
        actual=actual,
        folder=folder,
        seen=seen,
        facts=profile_facts(desired.repository, identity),
    )


def _volume_folder(
    desired: Desired, storage: Storage | None, identity: str
) -> tuple[VolumeFolder | None, FolderState | None]:
    """A volume's folder, counted."""
    from reconciler.values.volume_folders import volume_folders

    folder = volume_folders(desired).get(identity) if ref_of(identity).kind == "Volume" else None
    if folder is None or storage is None:
        return None, None
    return folder, storage.observe([folder], usage=True).get(identity)


def _events(store: Store | None, cluster: str, identity: str) -> tuple[Event, ...]:
    return store.events(cluster, resource=identity, limit=EVENTS) if store is not None else ()


def _node_info(identity: str, desired: Desired, actual: Actual) -> NodeInfo | None:
    from bai.cli.nodes.node_infos import node_infos

    if ref_of(identity).kind != "Node":
        return None
    return node_infos(desired, actual).get(ref_of(identity).name)
