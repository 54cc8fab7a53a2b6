"""Values that are made again and again of what mostly stays the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """The last value under each key, with what it was made of: it is given again only for the same, so that
    it is never stale. Of keys that were not asked for between two beginnings nothing is left. Threads
    may share it."""

    def __init__(self) -> None:
        self._now: dict[K, tuple[tuple[object, ...], V]] = {}
        self._before: dict[K, tuple[tuple[object, ...], V]] = {}

    def begin(self) -> None:
        """One more round, in which all that is still needed is asked for."""
        self._before, self._now = self._now, {}

    def fork(self) -> Memo[K, V]:
        """One more, for another thread, that begins with what this one knows."""
        made: Memo[K, V] = Memo()
        made._now = {**self._before, **self._now}
        return made

    def get(self, key: K, made_of: tuple[object, ...], make: Callable[[], V]) -> V:
        """What `make` gives, or gave for the same. `made_of`: all that it rests on, as values that do not
        change; what is the same object is not compared."""
        known = self._now.get(key) or self._before.get(key)
        if known is None or known[0] != made_of:
            known = (made_of, make())
        self._now[key] = known
        return known[1]
