"""A plan together with what the planner saw, for those who explain it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from planner.model.types import SessionRequest, Snapshot
from reconciler.plan.context import PlanContext
from reconciler.plan.place.cluster_views import snapshot_after, snapshot_before
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.values.plan import Plan


@dataclass(frozen=True)
class Study:
    """Made by the pipeline; read by `bai explain` and by reviews. What was decided, and the cluster before
    and after it."""

    plan: Plan
    context: PlanContext
    placed: PlacementResult

    @cached_property
    def before(self) -> Snapshot:
        """The cluster as it is; nobody waits in it."""
        return snapshot_before(self.context)

    @cached_property
    def after(self) -> Snapshot:
        """The cluster once the plan is carried out; pending are those who still wait."""
        return snapshot_after(self.context, self.placed)

    def request(self, identity: str) -> SessionRequest | None:
        """A session as the planner was asked for it, wherever it is now."""
        here = [*self.after.pending, *(one.request for one in self.after.running)]
        return next((one for one in here if one.id == identity), None)
