"""What takes longer to plan than an answer may: planned beside the answers, one after another, and once for
all who ask for the same. Whoever asks hears how far it is, and asks again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from reconciler.review.build import Tell
from schemas.problems.errors.server import TooMuchPlanned

PATIENCE = 0.15
"""Seconds that an answer waits for what it is about."""
MOST_AT_ONCE = 1
"""Threads of one interpreter: two would take as long, and leave the loop less."""
MOST_WAITING, MOST_OF_ONE = 32, 4
"""Questions that wait, of all people and of one. Who asks more loses the first of theirs."""
UNASKED = 60.0
"""Seconds after which a question that nobody has repeated is not begun any more."""
KEPT = 10.0
"""Seconds for which an answer is kept that somebody was told to wait for."""
_MOST_SERVED = 1000
"""People of whom is known when they had their last turn."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """`stage`: what is being done, in words; `ahead`: how many come before it, 0 once it is begun; `seconds`:
    since somebody asked."""

    stage: str
    ahead: int
    seconds: int


@dataclass(eq=False)
class _Question:
    key: Hashable
    person: str
    make: Callable[[Tell], Any]
    asked: float
    repeated: float
    is_begun: bool = False
    stage: str = ""
    promised: bool = False
    """Whether somebody was told to wait for it."""
    ended: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)
    found: Any = None
    error: BaseException | None = None

    def tell(self, stage: str) -> None:
        self.stage = stage

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.found


class PlanningQueue:
    """Of a server. Thread-safe. `patience`: seconds that `ask` waits."""

    def __init__(self, at_once: int = MOST_AT_ONCE, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._at_once = at_once
        self._lock = threading.Lock()
        self._questions: dict[Hashable, _Question] = {}
        self._waiting: list[_Question] = []
        self._workers = 0
        self._turns = 0
        self._served: dict[str, int] = {}

    def ask(
        self, key: Hashable, person: str, make: Callable[[Tell], T], patience: float | None = None
    ) -> T | Progress:
        """What `make` gives, made once for all who ask for `key` meanwhile, or how far it is. Raises what
        `make` does, and TooMuchPlanned."""
        question = self._join(key, person, make)
        if question.over.wait(self.patience if patience is None else patience):
            return cast(T, question.answer())
        with self._lock:
            if question.over.is_set():
                return cast(T, question.answer())
            question.promised, ahead = True, self._ahead(question)
        return Progress(question.stage, ahead, int(time.monotonic() - question.asked))

    def _ahead(self, question: _Question) -> int:
        if question not in self._waiting:
            return 0
        begun = sum(each.is_begun and not each.over.is_set() for each in self._questions.values())
        return begun + self._order().index(question)

    def _join(self, key: Hashable, person: str, make: Callable[[Tell], Any]) -> _Question:
        now = time.monotonic()
        with self._lock:
            for each in [*self._questions.values()]:
                if each.over.is_set() and (now >= each.ended + KEPT or not each.promised):
                    del self._questions[each.key]
            known = self._questions.get(key)
            if known is not None:
                known.repeated = now
                return known
            self._make_room(person)
            made = self._questions[key] = _Question(key, person, make, now, now)
            self._waiting.append(made)
            if self._workers < self._at_once:
                self._workers += 1
                threading.Thread(target=self._work, name="bai-reviews", daemon=True).start()
            return made

    def _make_room(self, person: str) -> None:
        theirs = [each for each in self._waiting if each.person == person]
        if len(theirs) >= MOST_OF_ONE:
            self._drop(theirs[0])
        elif len(self._waiting) >= MOST_WAITING:
            raise _too_much()

    def _drop(self, question: _Question) -> None:
        """Who still waits for it asks again, or is told."""
        self._waiting.remove(question)
        del self._questions[question.key]
        question.error = _too_much()
        question.over.set()

    def _order(self) -> list[_Question]:
        """Who waits, in turn: first those who have not had one for the longest."""
        return sorted(self._waiting, key=lambda each: (self._served.get(each.person, 0), each.asked))

    def _work(self) -> None:
        """Until nobody waits."""
        while (question := self._next()) is not None:
            try:
                question.found = question.make(question.tell)
            except BaseException as error:  # Whoever asks gets it.
                question.error = error
            with self._lock:
                question.ended = time.monotonic()
                question.over.set()

    def _next(self) -> _Question | None:
        with self._lock:
            now = time.monotonic()
            for each in [one for one in self._waiting if now >= one.repeated + UNASKED]:
                self._drop(each)
            if not self._waiting:
                self._workers -= 1
                return None
            question = self._order()[0]
            self._waiting.remove(question)
            question.is_begun = True
            if len(self._served) >= _MOST_SERVED:
                self._served.clear()
            self._turns += 1
            self._served[question.person] = self._turns
            return question


def _too_much() -> TooMuchPlanned:
    return TooMuchPlanned(hint="look again in a moment")
