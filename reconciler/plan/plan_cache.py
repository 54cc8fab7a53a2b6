"""The last plan, given again for as long as it is the plan that would be made anew.

A plan is a function of its request, and of the time only by what it asked of it (`planner.model.plan_time`):
for an equal request, until the earliest moment that would have answered something otherwise, it is the same
plan, byte for byte.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, TypeVar

from reconciler.plan.pipeline import make_study, make_timed_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.study import Study
from reconciler.values.plan import Plan

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Known(Generic[Result]):
    request: PlanRequest
    made: Result
    valid_until: float
    """Seconds since the epoch, exclusive."""

    def answers(self, request: PlanRequest) -> bool:
        if not self.request.now <= request.now < self.valid_until:
            return False
        return _inputs(self.request) == _inputs(request)


class PlanCache:
    """One plan of everything, that of the last request. Values given to it must not be changed afterwards."""

    def __init__(self) -> None:
        self._known: _Known[Plan] | None = None

    @property
    def valid_until(self) -> float:
        """Until when (seconds since the epoch, exclusive) the last plan is the one of an equal request."""
        return self._known.valid_until if self._known is not None else -inf

    def plan(self, request: PlanRequest) -> Plan:
        """What `make_plan` gives. Raises what it does."""
        if self._known is not None and self._known.answers(request):
            return replace(self._known.made, made_at=request.now)
        self._known = None
        plan, valid_until = make_timed_plan(request)
        self._known = _Known(request, plan, valid_until)
        return plan


class StudyCache:
    """The same of a study. Threads may share it: of those that ask at once, one makes it."""

    def __init__(self) -> None:
        self._known: _Known[Study] | None = None
        self._making = threading.Lock()

    def study(self, request: PlanRequest) -> Study:
        """What `make_study` gives, but for the time in its context. Raises what it does."""
        with self._making:
            if self._known is not None and self._known.answers(request):
                made = self._known.made
                return replace(made, plan=replace(made.plan, made_at=request.now))
            self._known = None
            made = make_study(request)
            self._known = _Known(request, made, made.context.time.valid_until)
            return made


def _inputs(request: PlanRequest) -> tuple[object, ...]:
    """All but the time; what is the same object is not compared."""
    return request.desired, request.actual, request.options, request.place
