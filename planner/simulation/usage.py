"""What users had of the cluster in the past, with a half-life: the `usage` of a snapshot."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planner.model.types import GroupInfo, SessionRequest
from planner.queue.fair_share import DEFAULT_HALF_LIFE


class DecayedUsage:
    """Dominant share × seconds by user, decayed. One half-life holds for all groups: the first that is
    named."""

    def __init__(self, groups: tuple[GroupInfo, ...]) -> None:
        given = (group.queue_options.get("halfLife") for group in groups)
        found = [float(one) for one in given if isinstance(one, int | float) and one > 0]
        self._rate = math.log(2) / (found[0] if found else DEFAULT_HALF_LIFE)
        self._known: dict[str, tuple[float, float]] = {}

    def add(self, request: SessionRequest, share: float, started: float, now: float) -> None:
        """A session held `share` from `started` until now."""
        held = share * (1 - math.exp(-self._rate * (now - started))) / self._rate
        self._known[request.user] = (self._value(request.user, now) + held, now)

    def at(self, now: float) -> Mapping[str, float]:
        return {user: self._value(user, now) for user in self._known}

    def _value(self, user: str, now: float) -> float:
        value, when = self._known.get(user, (0.0, now))
        return value * math.exp(-self._rate * (now - when))
