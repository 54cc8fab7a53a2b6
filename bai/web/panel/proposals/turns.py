"""One at a time for each person, and the latest wins: who types asks faster than can be answered."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

MOST_AT_ONCE = 2
"""Previews of all people that are made at a time."""


class LatestTurns:
    """Thread-safe."""

    def __init__(self, at_once: int = MOST_AT_ONCE) -> None:
        self._changed = threading.Condition()
        self._latest: dict[str, int] = {}
        self._busy: set[str] = set()
        self._slots = at_once
        self._count = 0

    @property
    def waiting(self) -> int:
        """How many people have a question that is not begun."""
        return len(self._latest)

    @contextlib.contextmanager
    def turn(self, person: str) -> Iterator[bool]:
        """Waits for it; False for whoever asked again meanwhile."""
        mine = self._wait(person)
        try:
            yield mine
        finally:
            if mine:
                with self._changed:
                    self._busy.discard(person)
                    self._changed.notify_all()

    def _wait(self, person: str) -> bool:
        with self._changed:
            self._count += 1
            ticket = self._latest[person] = self._count
            self._changed.notify_all()
            while self._latest.get(person) == ticket:
                if person not in self._busy and len(self._busy) < self._slots:
                    self._busy.add(person)
                    del self._latest[person]
                    return True
                self._changed.wait()
            return False
