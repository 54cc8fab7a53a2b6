"""`bai describe`: everything known about one resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bai.queries.facts.apps import app_ports, apps_of
from bai.queries.facts.hold_notes import hold_notes
from bai.queries.facts.node_infos import node_infos
from bai.queries.facts.profile_view import node_document, profile_facts, source_document
from bai.queries.names.resource_names import resolve_name
from bai.queries.names.service_names import find_service
from bai.queries.services.facts import service_facts
from bai.render.printout import Printout, styled_lines
from bai.render.resources.describe import Description, description_json, description_lines
from reconciler.values.volume_folders import volume_folders
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.queries.models import DescribeQuery
    from bai.queries.view import ClusterView
    from planner.model.types import NodeInfo
    from providers.storage.base import FolderState, VolumeFolder
    from reconciler.store.reader import StoreReader
    from reconciler.values.records import Event
    from reconciler.values.state import Actual, Desired, Existing

EVENTS = 20


def answer(view: ClusterView, query: DescribeQuery) -> Printout:
    """Raises NoSuchResource, AmbiguousName."""
    found = describe_resource(view, query.resource)
    whole = ref_of(found.id).kind == "Cluster"
    notes = hold_notes(view.directives) if whole else ()
    if query.form == "json":
        return Printout("bai.description/v1", description_json(found), notes=notes)
    return Printout(blocks=(styled_lines(description_lines(found), wrap=False),), notes=notes)


def describe_resource(view: ClusterView, name: str) -> Description:
    """Raises NoSuchResource, AmbiguousName, and what looking raises."""
    desired, actual = view.desired, view.actual
    nodes = [identity_of("Node", node.metadata.name) for node in desired.repository.nodes_of(desired.cluster)]
    known = {each for each in {*desired.digests, *actual.existing, *nodes} if view.sees(each)}
    identity = find_service(name, known) or resolve_name(name, known)
    item = actual.existing.get(identity)
    source = source_document(desired.repository, identity)
    place = desired.repository.locations.get(source.identity) if source else None
    machine = desired.repository.machines.get(identity)
    folder, seen = _volume_folder(view, identity)
    pending = item is not None and item.phase == "PENDING"
    waits = view.waits if pending else {}
    return Description(
        id=identity,
        place=str(place) if place else "",
        document=desired.documents.get(identity)
        or (item.recorded.document if item else {})
        or (node_document(machine) if machine else {}),
        digest=desired.digests.get(identity, ""),
        item=item,
        events=_events(view.store, desired.cluster, identity),
        wait=waits.get(identity),
        node=_node_info(identity, desired, actual),
        actual=actual,
        folder=folder,
        seen=seen,
        facts={**profile_facts(desired.repository, identity), **_ports(item)},
        apps=apps_of(desired, actual, identity),
        app_ports=app_ports(desired, identity),
        unbound_ports=view.unbound_ports,
        service=service_facts(view, identity) if ref_of(identity).kind == "Service" else None,
    )


def _ports(item: Existing | None) -> Mapping[str, object]:
    """Of an AppProxy: whose its ports are."""
    ports = item.recorded.app_ports if item is not None else {}
    if not ports:
        return {}
    owners = sorted((number, *key.partition(" ")) for key, number in ports.items())
    return {"ports": {str(number): f"{name} of {identity}" for number, identity, _, name in owners}}


def _volume_folder(view: ClusterView, identity: str) -> tuple[VolumeFolder | None, FolderState | None]:
    """A volume's folder, and how it is."""
    folder = volume_folders(view.desired).get(identity) if ref_of(identity).kind == "Volume" else None
    seen = view.folder_state(folder) if folder is not None else None
    known = seen is not None or (folder is not None and not folder.node)
    return (folder, seen) if known else (None, None)


def _events(store: StoreReader | None, cluster: str, identity: str) -> tuple[Event, ...]:
    return store.events(cluster, resource=identity, limit=EVENTS) if store is not None else ()


def _node_info(identity: str, desired: Desired, actual: Actual) -> NodeInfo | None:
    if ref_of(identity).kind != "Node":
        return None
    return node_infos(desired, actual).get(ref_of(identity).name)
