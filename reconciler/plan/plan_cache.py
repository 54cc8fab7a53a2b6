"""The last plan, given again for as long as it is the plan that would be made anew.

A plan is a function of its request, and of the time only by what it asked of it (`planner.model.plan_time`):
for an equal request, until the earliest moment that would have answered something otherwise, it is the same
plan, byte for byte.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from math import inf

from reconciler.plan.pipeline import TimedPlan, make_timed_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.study import Study
from reconciler.values.plan import Plan


@dataclass(frozen=True, slots=True)
class _KnownPlan:
    request: PlanRequest
    made: TimedPlan

    def answers(self, request: PlanRequest) -> bool:
        if not self.request.now <= request.now < self.made.valid_until:
            return False
        return _inputs(self.request) == _inputs(request)


class PlanCache:
    """One plan of everything, that of the last request. Values given to it must not be changed afterwards."""

    def __init__(self) -> None:
        self._known: _KnownPlan | None = None

    @property
    def valid_until(self) -> float:
        """Until when (seconds since the epoch, exclusive) the last plan is the one of an equal request."""
        return self._known.made.valid_until if self._known is not None else -inf

    @property
    def study(self) -> Study | None:
        """What the last plan was made in: the same object for as long as it is the same plan."""
        return self._known.made.study if self._known is not None else None

    def plan(self, request: PlanRequest) -> Plan:
        """What `make_plan` gives. Raises what it does."""
        if self._known is not None and self._known.answers(request):
            return replace(self._known.made.plan, made_at=request.now)
        self._known = None
        made = make_timed_plan(request)
        self._known = _KnownPlan(request, made)
        return made.plan


class StudyCache:
    """The same of a study. Threads may share it: of those that ask at once, one makes it."""

    def __init__(self) -> None:
        self._plans = PlanCache()
        self._making = threading.Lock()

    def study(self, request: PlanRequest) -> Study:
        """What `make_study` gives, but for the time in its context. Raises what it does."""
        with self._making:
            plan = self._plans.plan(request)
            study = self._plans.study
            assert study is not None, "nothing is decided in a plan that only looks"
            return study if study.plan is plan else replace(study, plan=plan)


def _inputs(request: PlanRequest) -> tuple[object, ...]:
    """All but the time; what is the same object is not compared."""
    return request.desired, request.actual, request.options, request.place
