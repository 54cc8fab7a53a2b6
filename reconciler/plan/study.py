"""A plan together with what the planner saw, for those who explain it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from planner.model.types import Placement, Running, SessionRequest, Snapshot
from reconciler.plan.context import Case, holding_now
from reconciler.plan.place.snapshot import make_snapshot
from reconciler.plan.place.solve import Solution
from reconciler.values.plan import Plan
from reconciler.values.state import Existing


@dataclass(frozen=True)
class Study:
    """What was decided, and the cluster before and after it."""

    plan: Plan
    case: Case
    solution: Solution

    @cached_property
    def before(self) -> Snapshot:
        """The cluster as it is; nobody waits in it."""
        return self._snapshot(holding_now(self.case.actual))

    @cached_property
    def after(self) -> Snapshot:
        """The cluster once the plan is carried out; pending are those who still wait."""
        asked = self.solution.asked
        if asked is None:
            return self._snapshot(())
        requests = {one.id: one for one in asked.pending}
        placed = [
            Running(requests[one.session], one, asked.now)
            for one in self.solution.outcome.placements
            if one.session in requests
        ]
        started = {one.placement.session for one in placed}
        gone = self.solution.evictions
        stay = tuple(one for one in asked.running if one.request.id not in gone)
        waiting = tuple(one for one in asked.pending if one.id not in started)
        waiting += tuple(one.request for one in asked.running if one.request.id in gone)
        return replace(asked, running=(*stay, *placed), pending=waiting)

    def request(self, identity: str) -> SessionRequest | None:
        """A session as the planner was asked for it, wherever it is now."""
        here = [*self.after.pending, *(one.request for one in self.after.running)]
        return next((one for one in here if one.id == identity), None)

    def _snapshot(self, running: Iterable[tuple[Existing, Placement]]) -> Snapshot:
        case = self.case
        return make_snapshot(case.desired, case.actual, case.nodes, running, (), case.now)
