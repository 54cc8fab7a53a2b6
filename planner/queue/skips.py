"""How often a session that waits for room may be passed over.

`maxSkips: N` lets N sessions that come later in the queue start before a waiting one; then the group is
closed to later sessions until it
has started. 0 is strict order; without a limit whatever fits starts. Only sessions that wait for room count:
one that waits for its time,
a dependency or a quota, or that could not run even on the empty group, holds nobody up.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.model.types import SessionRequest


class SkipCounter:
    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.closed_by: SessionRequest | None = None
        self._waiting: dict[str, tuple[SessionRequest, int]] = {}
        self._placed = 0

    def record_no_room(self, session: SessionRequest) -> None:
        """The session was tried and has no room."""
        self._waiting[session.id] = (session, self._placed)
        self._close(session)

    def placed(self) -> None:
        """A session was placed: all that wait were passed over once more."""
        self._placed += 1
        if self.limit is not None:
            for session, _ in self._waiting.values():
                self._close(session)

    def count(self, session: SessionRequest) -> int:
        """How often the session has been passed over, earlier plans included."""
        _, since = self._waiting.get(session.id, (session, self._placed))
        return session.skips + self._placed - since

    def _close(self, session: SessionRequest) -> None:
        if self.limit is not None and self.closed_by is None and self.count(session) >= self.limit:
            self.closed_by = session


def max_skips(options: Mapping[str, object]) -> int | None:
    """`maxSkips` of a group's queue options; None (no limit) when left out."""
    value = options.get("maxSkips")
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None
