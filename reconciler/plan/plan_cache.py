"""The last plans, given again for as long as they are the plans that would be made anew.

A plan is a function of its request, and of the time only by what it asked of it (`planner.model.plan_time`):
for an equal request, until the earliest moment that would have answered something otherwise, it is the same
plan, byte for byte. Where it is not, what followed from a session that has not changed is known nevertheless
(`planner.model.timed_memo`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from math import inf

from reconciler.plan.context import PlanMemory
from reconciler.plan.pipeline import TimedPlan, make_timed_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.study import Study
from reconciler.values.plan import Plan
from reconciler.values.plan_options import PlanOptions
from reconciler.values.state import Actual

_MOST = 4
"""Options that are told apart for one observation."""


@dataclass(frozen=True, slots=True)
class _KnownPlan:
    request: PlanRequest
    made: TimedPlan
    memory: PlanMemory

    def answers(self, request: PlanRequest) -> bool:
        if not self.request.now <= request.now < self.made.valid_until:
            return False
        return _inputs(self.request) == _inputs(request)


class PlanCache:
    """One plan for each of the options that were last asked for: a loop that leaves out what a policy refuses
    asks twice about one observation. Values given to it must not be changed afterwards."""

    def __init__(self) -> None:
        self._actual: Actual | None = None
        self._now: dict[PlanOptions, _KnownPlan] = {}
        """Those asked for of this observation, the oldest first; and of the one before."""
        self._before: dict[PlanOptions, _KnownPlan] = {}
        self._last: TimedPlan | None = None

    @property
    def valid_until(self) -> float:
        """Until when (seconds since the epoch, exclusive) the last plan is the one of an equal request."""
        return self._last.valid_until if self._last is not None else -inf

    @property
    def study(self) -> Study | None:
        """What the last plan was made in: the same object for as long as it is the same plan."""
        return self._last.study if self._last is not None else None

    def plan(self, request: PlanRequest) -> Plan:
        """What `make_plan` gives. Raises what it does."""
        if request.actual is not self._actual:
            self._actual, self._before, self._now = request.actual, self._now, {}
        known = self._now.pop(request.options, None) or self._before.pop(request.options, None)
        same = known is not None and known.answers(request)
        if known is None or not same:
            self._last = None
            memory = known.memory if known is not None else PlanMemory()
            known = _KnownPlan(request, make_timed_plan(replace(request, memory=memory)), memory)
        if len(self._now) == _MOST:
            del self._now[next(iter(self._now))]
        self._now[request.options], self._last = known, known.made
        return replace(known.made.plan, made_at=request.now) if same else known.made.plan


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
    return request.desired, request.actual, request.options, request.place, request.sealed
