"""What is asked of the pipeline: one plan. Values only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reconciler.plan.context import Planner
from reconciler.values.state import Actual, Desired


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Made by a workspace, a review or a test; read by `prepare`, which makes the plan context of it."""

    desired: Desired
    actual: Actual
    now: float
    """Seconds since the epoch."""
    targets: Sequence[str] = ()
    """Identities (`*` allowed) that the plan is about; all when empty."""
    refresh_only: bool = False
    """Whether only what runs is looked at."""
    destroy: bool = False
    """Whether everything is deleted."""
    replace: Sequence[str] = ()
    """Sessions (`*` allowed) to stop and start again though nothing changed."""
    most_moves: int = 0
    """Most sessions to be moved to join what is free."""
    without: Collection[str] = ()
    """Resources to be left as they are."""
    place: Planner | None = None
    """The planner; None: `planner.place.place` with its built-in policies."""
