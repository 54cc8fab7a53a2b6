"""The cluster as it is now, as the planner sees it, where nobody plans for the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.queries.facts.node_infos import node_infos
from reconciler.plan.place.cluster_views import snapshot_now

if TYPE_CHECKING:
    from planner.model.types import Snapshot
    from reconciler.values.state import Actual, Desired


def present_snapshot(desired: Desired, actual: Actual, now: float) -> Snapshot:
    """What runs, holds what it has; nobody waits in it. `now`: seconds since the epoch."""
    return snapshot_now(desired, actual, node_infos(desired, actual), now)
