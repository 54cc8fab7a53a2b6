"""What is asked of the pipeline: one plan. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.plan.context import PlanMemory, Planner
from reconciler.values.plan_options import WHOLE_PLAN, PlanOptions
from reconciler.values.state import Actual, Desired


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Made by a workspace, a review or a test; read by `prepare`, which makes the plan context of it."""

    desired: Desired
    actual: Actual
    now: float
    """Seconds since the epoch."""
    options: PlanOptions = WHOLE_PLAN
    place: Planner | None = None
    """The planner; None: `planner.place.place` with its built-in policies."""
    memory: PlanMemory = field(default_factory=PlanMemory, compare=False)
    """What the plan before has left."""
    sealed: bool = True
    """False for a plan that is only looked at: without what it is recognised by, so that nobody can carry it
    out."""
