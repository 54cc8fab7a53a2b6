"""How long packing may hold up a plan: a limit by a clock that the caller gives, since the planner has none.

Packing ends by the work that it may do, which depends on its input alone. Only where a machine is far slower
than that was measured on does the limit end it first, and then the plan says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


class TimeLimit:
    """`seconds` from now on; `reached` once anything was left undone because of it."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self.reached = False
        self._now, self._end = now, now() + seconds

    def left(self) -> float:
        """Seconds; 0 when it is over."""
        return max(0.0, self._end - self._now())

    def is_over(self) -> bool:
        self.reached = self.reached or self.left() <= 0
        return self.reached


def no_limit() -> TimeLimit:
    """One that is never over."""
    return TimeLimit(math.inf, _standing_still)


def _standing_still() -> float:
    return 0.0


@dataclass
class PackingTime:
    """What packing has taken of one plan, by group. Several calls of the planner for one plan share it."""

    now: Callable[[], float] = _standing_still
    """Seconds by a clock that only goes forward; without one, packing ends by its work alone."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds."""

    def limit(self, group: str, seconds: float) -> TimeLimit:
        """What is left of the group's `seconds`, from now on."""
        return TimeLimit(seconds - self.spent.get(group, 0.0), self.now)
