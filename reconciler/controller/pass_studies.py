"""What is worked out of the last pass beyond what it did, for those who ask: once for all of them, and anew
only where what it is made of has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.advice.capacity import GroupCapacity, GroupView
    from planner.model.types import Snapshot
    from reconciler.controller.cycle import ReconcileCycle
    from reconciler.plan.plan_cache import PlanCache
    from reconciler.plan.study import Study
    from reconciler.values.state import Actual, Desired


class PassStudies:
    """Of the passes of one cluster that came to documents and saw something. `now`: seconds since the epoch.
    Thread-safe: what somebody else is working out is waited for."""

    def __init__(self) -> None:
        self._working = threading.RLock()
        self._plans: PlanCache | None = None
        self._study: tuple[Actual, Study] | None = None
        self._capacities: tuple[Study, tuple[GroupCapacity, ...]] | None = None
        self._present: tuple[Desired, Actual, Snapshot] | None = None
        self._room: tuple[Snapshot, Mapping[str, GroupView]] | None = None

    def study(self, done: ReconcileCycle, now: float) -> Study:
        """What the pass planned, with what the planner saw, on what came of it; the same object for as long
        as nothing else is planned. Where nobody has planned here, as on a replica that stands by, a plan of
        everything. Raises PlanError."""
        with self._working:
            actual = _seen(done)[1]
            if done.study is not None and done.result is None:
                return done.study
            if self._study is None or self._study[0] is not actual:
                self._study = actual, self._make_study(done, now)
            return self._study[1]

    def capacities(self, done: ReconcileCycle, now: float) -> tuple[GroupCapacity, ...]:
        """What `bai capacity` says of each group. Raises PlanError."""
        from planner.advice.capacity import capacities
        from reconciler.workspace.placement_policies import planner_for

        with self._working:
            study = self.study(done, now)
            if self._capacities is None or self._capacities[0] is not study:
                place = planner_for(study.context.desired)
                self._capacities = study, capacities(study.before, study.after, place)
            return self._capacities[1]

    def present(self, done: ReconcileCycle, now: float) -> Snapshot:
        """The cluster as it is now, as the planner sees it: what runs, holds what it has, and nobody waits
        in it."""
        from reconciler.plan.place.cluster_views import snapshot_now
        from reconciler.plan.place.snapshot import node_infos

        with self._working:
            seen = _seen(done)
            if self._present is None or self._present[:2] != seen:
                self._present = *seen, snapshot_now(*seen, node_infos(*seen)[0], now)
            return self._present[2]

    def room(self, done: ReconcileCycle, now: float) -> Mapping[str, GroupView]:
        """What each group gives and still fits now, by name."""
        from planner.advice.capacity import group_views

        with self._working:
            present = self.present(done, now)
            if self._room is None or self._room[0] is not present:
                self._room = present, group_views(present)
            return self._room[1]

    def _make_study(self, done: ReconcileCycle, now: float) -> Study:
        if done.study is not None and done.result is not None:
            finished = {each.action for each in done.result.results if each.outcome == "done"}
            return done.study.carried_out(_seen(done)[1], finished)
        from reconciler.plan.plan_cache import PlanCache
        from reconciler.plan.plan_request import PlanRequest
        from reconciler.workspace.placement_policies import planner_for

        desired, actual = _seen(done)
        if self._plans is None:
            self._plans = PlanCache()
        self._plans.plan(PlanRequest(desired, actual, now, place=planner_for(desired)))
        assert self._plans.study is not None
        return self._plans.study


def _seen(done: ReconcileCycle) -> tuple[Desired, Actual]:
    assert done.desired is not None and done.actual is not None
    return done.desired, done.actual
