"""What an evaluation may cost, and how it fails."""

from __future__ import annotations

from typing import Any

MAX_STEPS = 1_000_000
"""Of one evaluation: at worst about half a second of a processor, and 50 MiB."""
MAX_STEPS_PER_PLAN = 20_000_000
"""Of all evaluations that share a budget, unless it says otherwise."""


class EvaluationError(Exception):
    """An expression has no value with these variables. Its text is a plain sentence without a full stop."""


class TooManySteps(EvaluationError):
    """The budget is spent. No `||` hides it."""


class Budget:
    """`steps` that evaluations share, of which some are `left`."""

    __slots__ = ("left", "steps")

    def __init__(self, steps: int = MAX_STEPS_PER_PLAN) -> None:
        self.steps = self.left = steps


class Evaluation:
    """One evaluation: the variables by name, and how many steps are left."""

    __slots__ = ("left", "variables")

    def __init__(self, names: dict[str, Any], left: int) -> None:
        self.variables = names
        self.left = left

    def spend(self, steps: int) -> None:
        """Before something is done that costs as much. Raises TooManySteps."""
        self.left -= steps
        if self.left < 0:
            raise TooManySteps
