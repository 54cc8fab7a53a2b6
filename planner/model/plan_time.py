"""The time that a plan is made for. Whoever asks it something says with that until when the answer holds, so
that a plan knows until when it is the plan that would be made anew of the same.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf


class PlanTime:
    """A moment (`seconds` since the epoch), and until when (`valid_until`, the same, exclusive) all that was
    asked of it has the same answers.

    `seconds` itself is for handing on to what gives its own `valid_until`.
    """

    __slots__ = ("seconds", "valid_until")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.valid_until = inf

    def passed(self, moment: float) -> bool:
        """Whether the moment has come."""
        if self.seconds >= moment:
            return True
        self.expires(moment)
        return False

    def after(self, moment: float) -> bool:
        """Whether it is later than the moment."""
        if self.seconds > moment:
            return True
        self.expires(moment)
        return False

    def exactly(self) -> float:
        """Now, for computing with it: what comes of that holds for no other moment."""
        self.expires(self.seconds)
        return self.seconds

    def to_the_day(self) -> float:
        """Now, for who only reads its day (UTC)."""
        try:
            day = datetime.fromtimestamp(self.seconds, UTC)
            after = day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        except (OverflowError, ValueError, OSError):
            return self.exactly()
        self.expires(after.timestamp())
        return self.seconds

    def expires(self, moment: float) -> None:
        """Something that was found holds until then."""
        self.valid_until = min(self.valid_until, moment)
