"""What sessions hold: now, and while others are placed. Pure."""

from __future__ import annotations

from collections.abc import Collection

from planner.model.types import Placement
from reconciler.plan.decide.decision import Decision
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import ENDED, LIVE
from reconciler.values.state import Actual, Existing


def held_while_placing(decision: Decision, kept: Collection[str] = ()) -> tuple[Existing, Placement] | None:
    """What a session keeps while others are placed, `kept` ones among them; None where it keeps nothing."""
    existing = decision.existing
    if existing is None:
        return None
    placement = existing.recorded.placement if decision.id in kept else decision.placement
    if placement is not None and (decision.id in kept or decision.need in ("keep", "repair", "away")):
        return existing, placement
    return None


def held_now(actual: Actual) -> list[tuple[Existing, Placement]]:
    """Sessions that hold something before the plan is carried out."""
    return [
        (each, each.recorded.placement)
        for each in actual.existing.values()
        if each.recorded.placement is not None
        and (each.phase in HOLDING - ENDED or any(kernel.state in LIVE for kernel in each.kernels))
    ]
