"""What queries of services give, asked in threads of their own: who decides never waits for an answer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from reconciler.observe.scaling.sources import Query
from schemas.values.resource_ref import ref_of

PERIOD = 15.0
"""Seconds between two questions of one service."""
KEPT = 60.0
"""Seconds for which an answer counts; then nobody knows."""
MOST_AT_A_TIME = 8
"""Questions, and of one project, whose slow ones keep no other project's from being asked:"""
MOST_OF_PROJECT = 2


@dataclass(slots=True)
class _Asked:
    query: str
    at: float
    value: float | None = None
    answered: float = 0.0
    asking: bool = True


def in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="autoscaler-query", daemon=True).start()


class QueryAnswers:
    """`query` may wait for seconds. `now`: seconds since the epoch; `begin` runs what it is given, now or
    soon."""

    def __init__(
        self, query: Query, now: Callable[[], float], begin: Callable[[Callable[[], None]], None] = in_thread
    ) -> None:
        self._query, self._now, self._begin = query, now, begin
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}
        self._at_a_time: Counter[str] = Counter()
        """By project."""

    def answer(self, service: str, query: str) -> float | None:
        """What is known, which may be an answer of a while ago; asks again where it is time. None is not
        known. Never waits."""
        project, now = ref_of(service).project, self._now()
        with self._lock:
            known = self._asked.get(service)
            if known is not None and known.query != query:
                known = None
            due = known is None or (not known.asking and not known.at <= now < known.at + PERIOD)
            free = self._at_a_time.total() < MOST_AT_A_TIME and self._at_a_time[project] < MOST_OF_PROJECT
            begins = due and free
            if begins:
                made = _Asked(query, now)
                if known is not None:
                    made.value, made.answered = known.value, known.answered
                self._asked[service] = known = made
                self._at_a_time[project] += 1
        if begins and known is not None:
            asked = known
            self._begin(lambda: self._ask(asked, project))
        return self._fresh(known)

    def forget(self, others_than: Collection[str]) -> None:
        """All services but these."""
        with self._lock:
            for service in self._asked.keys() - set(others_than):
                del self._asked[service]

    def _ask(self, asked: _Asked, project: str) -> None:
        value = None
        try:
            value = self._query(asked.query)
        finally:
            with self._lock:
                asked.asking = False
                if value is not None:
                    asked.value, asked.answered = value, self._now()
                self._at_a_time[project] -= 1

    def _fresh(self, known: _Asked | None) -> float | None:
        with self._lock:
            if known is None or known.value is None or not abs(self._now() - known.answered) <= KEPT:
                return None
            return known.value
