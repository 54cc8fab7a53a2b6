"""Everything known about one resource, gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.cli.nodes.profile_view import document, facts, origin
from bai.cli.resource_names import resolve
from bai.render.resources.describe import Description

if TYPE_CHECKING:
    from planner.model.types import NodeInfo, Wait
    from providers.storage.base import Folder, Seen
    from reconciler.values.records import Event
    from reconciler.values.state import Actual, Desired
    from reconciler.workspace.workspace import Workspace

EVENTS = 20


def describe_resource(workspace: Workspace, name: str) -> Description:
    """Raises NoSuchResource, AmbiguousName, and what opening store and provider raises."""
    desired, actual = workspace.desired(), workspace.actual()
    nodes = [f"Node/{node.metadata.name}" for node in desired.repository.nodes_of(desired.cluster)]
    identity = resolve(name, {*desired.digests, *actual.existing, *nodes})
    item = actual.existing.get(identity)
    source = origin(desired.repository, identity)
    place = desired.repository.places.get(source.identity) if source else None
    machine = desired.repository.machines.get(identity)
    folder, seen = _folder(workspace, identity)
    return Description(
        id=identity,
        place=str(place) if place else "",
        document=desired.documents.get(identity)
        or (item.recorded.document if item else {})
        or (document(machine) if machine else {}),
        digest=desired.digests.get(identity, ""),
        item=item,
        events=_events(workspace, desired.cluster, identity),
        wait=_wait(workspace, identity) if item is not None and item.phase == "PENDING" else None,
        node=_node(identity, desired, actual),
        actual=actual,
        folder=folder,
        seen=seen,
        facts=facts(desired.repository, identity),
    )


def _folder(workspace: Workspace, identity: str) -> tuple[Folder | None, Seen | None]:
    """A volume's folder, counted."""
    from reconciler.values.volume_folders import folders

    folder = folders(workspace.desired()).get(identity) if identity.startswith("Volume/") else None
    if folder is None or workspace.storage is None:
        return None, None
    return folder, workspace.storage.look([folder], usage=True).get(identity)


def _events(workspace: Workspace, cluster: str, identity: str) -> tuple[Event, ...]:
    if not workspace.has_store:
        return ()
    return workspace.store.events(cluster, resource=identity, limit=EVENTS)


def _wait(workspace: Workspace, identity: str) -> Wait | None:
    """Why it waits, as a plan made now says; a plan that is refused is no reason to show nothing."""
    from schemas.problems.errors import PlanError

    try:
        return next((wait for wait in workspace.plan().waits if wait.session == identity), None)
    except PlanError:
        return None


def _node(identity: str, desired: Desired, actual: Actual) -> NodeInfo | None:
    from bai.cli.cluster_view import node_infos

    if not identity.startswith("Node/"):
        return None
    return node_infos(desired, actual).get(identity.partition("/")[2])
