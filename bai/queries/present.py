"""The cluster as it is now, as the planner sees it, where nobody plans for the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.queries.facts.node_infos import node_infos
from reconciler.plan.place.cluster_views import snapshot_now

if TYPE_CHECKING:
    from bai.queries.view import ClusterView
    from planner.model.types import Snapshot


def present_snapshot(view: ClusterView) -> Snapshot:
    """What runs, holds what it has; nobody waits in it."""
    return snapshot_now(view.desired, view.actual, node_infos(view.desired, view.actual), view.now)
