"""Asking many nodes the same: side by side, so many at once, none of them for longer than its limit.

A node that does not answer within its limit, or fails only after a while, has no answer this time. From then
on it is asked apart from the others, by a few threads and at growing intervals, and hardly waited for, until
it has answered in time: it takes no place of those that answer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from schemas.problems.errors.node import NodeUnreachable
from schemas.problems.errors.provider import ProviderError

AT_ONCE = 32
"""Most nodes that are asked at the same time."""
APART = 16
"""Most of those that did not answer in time, beside the others."""
LIMIT = 20.0
"""Seconds without a word after which a node does not answer, where nothing else is said."""
LONGEST_TIMES = 6
"""So many times as long may an answer take that comes bit by bit."""
QUICK = 1.0
"""Seconds that a node which did not answer the last time is waited for; who fails sooner is asked again like
any other."""
LONG, TYPICAL_TIMES = 3.0, 5.0
"""A node that has not answered after so many times what the others take (in the beginning: after so many
seconds) leaves its place to the next one."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a node that did not answer is asked again; doubled each time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """`ask` raises ProviderError. `limit`: seconds without a word. `patient`: it may take long on a node that
    is well, so that nothing follows for other questions when it does. `proves`: who answers in time is well;
    only such questions are put to nodes that did not answer the last time."""

    ask: Callable[[], Any]
    limit: float = LIMIT
    patient: bool = False
    proves: bool = True


@dataclass(slots=True, eq=False)
class _Ask:
    """A question under way."""

    node: str
    question: Question
    began: float = 0.0
    heard: float = 0.0
    answer: Any = None
    raised: BaseException | None = None
    done: bool = False
    given_up: bool = False

    @property
    def key(self) -> tuple[str, bool]:
        return self.node, self.question.patient

    @property
    def ends(self) -> float:
        """When it has taken too long."""
        limit = self.question.limit
        return min(self.heard + limit, self.began + LONGEST_TIMES * limit)

    def begin(self, now: float) -> None:
        self.began = self.heard = now


@dataclass(frozen=True, slots=True)
class _Silence:
    """Why a node is asked apart, and when."""

    error: ProviderError
    pause: float
    due: float


@dataclass(slots=True, eq=False)
class _Round:
    """One call of `ask`: who is waited for."""

    began: float
    waiting: deque[_Ask]
    late: list[_Ask]
    running: set[_Ask] = field(default_factory=set)
    threads: int = 0
    answers: int = 0
    seconds: float = 0.0
    """What those took that have answered."""

    def patience(self) -> float:
        return max(QUICK, TYPICAL_TIMES * self.seconds / self.answers) if self.answers else LONG


class NodePoll:
    """Remembers who did not answer. May be used by several threads."""

    def __init__(
        self, *, at_once: int = AT_ONCE, apart: int = APART, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once, self._most_apart, self._clock = at_once, apart, clock
        self._changed = threading.Condition()
        self._silent: dict[str, _Silence] = {}
        self._rounds: set[_Round] = set()
        self._busy: set[tuple[str, bool]] = set()
        """Of whom an answer may still come that nobody waits for."""
        self._apart: deque[_Ask] = deque()
        self._apart_threads = 0
        self._own = threading.local()

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Node → its answer, or the ProviderError that there is in its place; in the order of `questions`."""
        if len(questions) == 1:  # It holds up nobody.
            return {node: _ask_here(question) for node, question in questions.items()}
        with self._changed:
            asks, silent = self._begin(questions)
            late = [each for each in asks if each.node in self._silent]
            first = deque(each for each in asks if each.node not in self._silent)
            this = _Round(self._clock(), first, late)
            self._rounds.add(this)
            self._ask_apart(late)
            try:
                self._wait(this)
            finally:
                self._rounds.discard(this)
                this.waiting.clear()
                for each in (*this.running, *(each for each in late if not each.done)):
                    each.given_up = True
            found = {each.node: self._outcome(each) for each in asks}
        return {node: found[node] if node in found else silent[node] for node in questions}

    @property
    def open(self) -> int:
        """Nodes of which an answer may still come that nobody waits for."""
        with self._changed:
            return len(self._busy)

    @property
    def awaited(self) -> frozenset[str]:
        """Nodes that somebody waits for now, beside those that are asked apart."""
        with self._changed:
            return frozenset(each.node for this in self._rounds for each in (*this.running, *this.waiting))

    def heard(self) -> None:
        """The node that the calling thread asks has said something, and more is to come."""
        ask: _Ask | None = getattr(self._own, "ask", None)
        if ask is not None:
            ask.heard = self._clock()

    def wake(self) -> None:
        """Look at the clock: for one that has been moved."""
        with self._changed:
            self._changed.notify_all()

    # With the lock held

    def _begin(self, questions: Mapping[str, Question]) -> tuple[list[_Ask], dict[str, ProviderError]]:
        """Who is asked now, and what stands for those who are not."""
        asks, silent, now = [], {}, self._clock()
        for node, question in questions.items():
            ask, silence = _Ask(node, question), self._silent.get(node)
            if ask.key in self._busy:
                silent[node] = silence.error if silence else _no_answer(ask)
            elif silence is not None and (now < silence.due or not question.proves):
                silent[node] = silence.error
            else:
                asks.append(ask)
        return asks, silent

    def _ask_apart(self, late: list[_Ask]) -> None:
        self._apart.extend(late)
        self._busy.update(each.key for each in late)
        while self._apart_threads < min(self._most_apart, len(self._apart)):
            self._apart_threads += 1
            threading.Thread(target=self._work_apart, name="node apart", daemon=True).start()

    def _wait(self, this: _Round) -> None:
        """Until everybody has answered, or is waited for no longer."""
        while True:
            now = self._clock()
            for each in [each for each in this.running if now >= each.ends]:
                this.running.discard(each)
                this.threads -= 1  # Its thread ends when it answers.
                self._give_up(each, now)
            self._start_threads(this, now)
            if this.waiting or this.running:
                left = min([QUICK, *(each.ends - now for each in this.running)])
            elif any(not each.done for each in this.late) and now < this.began + QUICK:
                left = this.began + QUICK - now
            else:
                return
            self._changed.wait(left)

    def _start_threads(self, this: _Round, now: float) -> None:
        while this.waiting and this.threads < self._places(this, now):
            this.threads += 1
            threading.Thread(target=self._work, args=(this,), name="node", daemon=True).start()
            if this.threads >= len(this.running) + len(this.waiting):
                return

    def _places(self, this: _Round, now: float) -> int:
        """How many threads there may be: who waits for long on a node takes nobody's place, up to as many."""
        patience = this.patience()
        long = sum(now - each.began >= patience for each in this.running)
        return self._at_once + min(long, self._at_once)

    def _give_up(self, ask: _Ask, now: float) -> None:
        ask.given_up = True
        self._busy.add(ask.key)
        if not ask.question.patient:
            self._note_silence(ask.node, _no_answer(ask), now)

    def _note_silence(self, node: str, error: ProviderError, now: float) -> None:
        before = self._silent.get(node)
        pause = min(before.pause * 2, LONGEST_PAUSE) if before else FIRST_PAUSE
        self._silent[node] = _Silence(error, pause, now + pause)

    def _outcome(self, ask: _Ask) -> Any:
        if not ask.done or ask.given_up:
            silence = self._silent.get(ask.node)
            return silence.error if silence else _no_answer(ask)
        if ask.raised is not None and not isinstance(ask.raised, ProviderError):
            raise ask.raised
        return ask.answer if ask.raised is None else ask.raised

    def _end(self, ask: _Ask, this: _Round | None) -> None:
        """It has answered, or failed."""
        now = self._clock()
        took = now - ask.began
        ask.done = True
        if this is not None:
            this.running.discard(ask)
        if ask.given_up and this is not None:
            self._busy.discard(ask.key)
            return  # It counts as silent already.
        if this is None:
            self._busy.discard(ask.key)
        else:
            this.answers += 1
            this.seconds += took
        if ask.question.patient:
            return
        if isinstance(ask.raised, ProviderError) and took > QUICK:
            self._note_silence(ask.node, ask.raised, now)
        elif now >= ask.ends:
            self._note_silence(ask.node, _no_answer(ask), now)
        elif ask.question.proves:
            self._silent.pop(ask.node, None)

    # In threads

    def _work(self, this: _Round) -> None:
        while True:
            with self._changed:
                if not this.waiting or this.threads > self._places(this, self._clock()):
                    this.threads -= 1
                    return
                ask = this.waiting.popleft()
                ask.begin(self._clock())
                this.running.add(ask)
            self._carry_out(ask)
            with self._changed:
                self._end(ask, this)
                if ask.given_up:
                    return
                if not (this.waiting or this.running):
                    self._changed.notify_all()

    def _work_apart(self) -> None:
        while True:
            with self._changed:
                if not self._apart:
                    self._apart_threads -= 1
                    return
                ask = self._apart.popleft()
                ask.begin(self._clock())
            self._carry_out(ask)
            with self._changed:
                self._end(ask, None)
                self._changed.notify_all()

    def _carry_out(self, ask: _Ask) -> None:
        self._own.ask = ask
        try:
            ask.answer = ask.question.ask()
        except BaseException as error:
            ask.raised = error


def _ask_here(question: Question) -> Any:
    try:
        return question.ask()
    except ProviderError as error:
        return error


def _no_answer(ask: _Ask) -> ProviderError:
    return NodeUnreachable(node=ask.node, why=f"no answer within {ask.question.limit:g} s")
