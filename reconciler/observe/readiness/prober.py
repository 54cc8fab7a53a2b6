"""Replicas are asked again and again, beside the passes of a loop, and what they last answered is known at
any time.

One thread plans who is asked next; answers are waited for in others. No more than `MOST` are waited for at a
time. Those that kept somebody waiting until their time was up have a few places of their own, so that nobody
else's question waits for one that hangs.
"""

from __future__ import annotations

import heapq
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from reconciler.observe.readiness.questions import Question, Replica
from reconciler.observe.readiness.standing import (
    Answer,
    Ask,
    Standing,
    after_answer,
    after_liveness,
    at_rest,
    late,
    without_question,
)
from reconciler.observe.readiness.workers import Workers
from reconciler.values.services.readiness import Readiness

MOST = 64
"""Questions under way, and of these of replicas that were late the last time:"""
MOST_LATE = 16
MOST_HANGING = 128
"""With those that were given up, and whose way there has not come to its end yet: at more, those that were
late wait. All others are asked all the same, and one that hangs is not asked again before that has ended."""
MARGIN = 0.25
"""Seconds after a question's time in which it may say itself how it ended."""
SOON = 0.2
"""Seconds until a ready replica is asked again that was found closed, at most."""
_SHORTEST = 0.02

Listener = Callable[[str, Readiness | None], None]
"""Hears in the prober's threads that a replica is ready or dead, or is no more; None once it is forgotten.
Must neither raise nor wait."""


@dataclass(eq=False, slots=True)
class _Watched:
    replica: Replica
    began: float
    """Seconds since the epoch from when these kernels have run, as far as anybody knows."""
    standing: Standing = field(default_factory=Standing)
    probes: tuple[_Probe, ...] = ()


@dataclass(eq=False, slots=True)
class _Probe:
    """One question to one replica. `due`: by the monotonic clock."""

    watched: _Watched
    question: Question
    liveness: bool
    due: float
    late: bool = False
    asked: int = 0
    asking: _Asking | None = None
    queued: bool = False
    over: bool = False


@dataclass(eq=False, slots=True)
class _Asking:
    """`slow`: it takes one of the places of those that are late. `given_up`: its answer does not count."""

    probe: _Probe
    deadline: float
    slow: bool
    given_up: bool = False


@dataclass(slots=True)
class _Places:
    """Of questions under way: `taken`, by whether they are slow, and those that were given up."""

    taken: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    given_up: int = 0

    def has_room(self, *, slow: bool) -> bool:
        if slow:
            return self.taken[True] < min(MOST_LATE, MOST_HANGING - self.given_up)
        return self.taken[False] < MOST - MOST_LATE

    def leave(self, asking: _Asking) -> None:
        if asking.given_up:
            self.given_up -= 1
        else:
            self.taken[asking.slow] -= 1

    def give_up(self, asking: _Asking) -> None:
        self.leave(asking)
        asking.given_up = True
        self.given_up += 1


class Prober:
    """`now` gives the time in seconds since the epoch; `wake` is called when an answer has made a replica
    ready, unready, dead or alive again. May be used from several threads; `halt` from a signal handler, too.
    No thread runs before there is somebody to ask."""

    def __init__(self, now: Callable[[], float], wake: Callable[[], None]) -> None:
        self._now = now
        self._wake = wake
        self._ask: Ask | None = None
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._replicas: Mapping[str, Replica] = {}
        self._readings: Mapping[str, Readiness] | None = {}
        self._agenda: list[tuple[float, int, _Probe]] = []
        self._order = count()
        self._waiting: dict[bool, deque[_Probe]] = {False: deque(), True: deque()}
        self._running: set[_Asking] = set()
        self._places = _Places()
        self._workers = Workers("replica-probe")
        self._listeners: tuple[Listener, ...] = ()
        self._thread: threading.Thread | None = None
        self._news = threading.Event()
        self._stop = threading.Event()

    def watch(self, replicas: Mapping[str, Replica], ask: Ask) -> None:
        """Ask these from now on, and nobody else; what is known of the others is forgotten, as of one whose
        kernels are other ones. Not changed afterwards."""
        told: list[tuple[str, Readiness | None]] = []
        with self._lock:
            self._ask = ask
            if replicas is self._replicas or self._stop.is_set():
                return
            self._replicas = replicas
            for identity in self._watched.keys() - replicas.keys():
                _end_probes(self._watched.pop(identity))
                told.append((identity, None))
            for identity, replica in replicas.items():
                known = self._watched.get(identity)
                if known is None or known.replica != replica:
                    before = _shown(known)
                    self._take(replica)
                    if _shown(self._watched[identity]) != before:
                        told.append((identity, self._watched[identity].standing.readiness))
            self._readings = None
            if self._agenda and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="replica-probes", daemon=True)
                self._thread.start()
        self._news.set()
        self._tell(told)

    def forget(self) -> None:
        """Watch nobody."""
        self.watch({}, _ask_nobody)

    def readings(self) -> Mapping[str, Readiness]:
        """Of all that have answered, or need not be asked; the same object while it says the same."""
        with self._lock:
            if self._readings is None:
                known = ((name, each.standing.readiness) for name, each in self._watched.items())
                self._readings = {name: each for name, each in known if each is not None}
            return self._readings

    def ready(self, identity: str) -> Readiness | None:
        """What is known of one replica now; None where it was not asked yet, or there is none."""
        with self._lock:
            watched = self._watched.get(identity)
            return watched.standing.readiness if watched is not None else None

    def add_listener(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def halt(self) -> None:
        """Nobody is asked any more; what was answered stays known."""
        self._stop.set()
        self._news.set()

    # With the lock

    def _take(self, replica: Replica) -> None:
        """One that is new, or not what it was."""
        now, moment = self._now(), time.monotonic()
        known = self._watched.get(replica.identity)
        if known is not None and known.replica.run.goes_on_in(replica.run):
            watched = known
            run = known.replica.run.with_later(replica.run)
            if run.began is not None and run.began != known.replica.run.began:
                watched.began = min(now, run.began)
            watched.replica = replace(replica, run=run)
        else:
            if known is not None:
                _end_probes(known)
            began = replica.run.began
            watched = _Watched(replica, min(now, began) if began is not None else now)
            self._watched[replica.identity] = watched
        if not replica.runs:
            _end_probes(watched)
            watched.probes = ()
            watched.standing = at_rest(watched.standing, replica.phase, now)
            return
        if replica.readiness is None:
            lives = replica.liveness is not None
            watched.standing = without_question(watched.standing, watched.began, also_lives=lives)
        self._put_questions(watched, moment)

    def _put_questions(self, watched: _Watched, moment: float) -> None:
        """Those that are asked already go on; a new one is asked at once."""
        old = {(probe.question, probe.liveness): probe for probe in watched.probes}
        wanted = ((watched.replica.readiness, False), (watched.replica.liveness, True))
        probes = []
        for question, liveness in wanted:
            if question is None:
                continue
            probe = old.pop((question, liveness), None)
            if probe is None:
                probe = _Probe(watched, question, liveness, moment)
                self._schedule(probe, moment)
            probes.append(probe)
        for gone in old.values():
            gone.over = True
        watched.probes = tuple(probes)

    def _schedule(self, probe: _Probe, due: float) -> None:
        probe.due = due
        heapq.heappush(self._agenda, (due, next(self._order), probe))

    def _plan_next(self, probe: _Probe, answer: Answer) -> None:
        """When it is asked again. After the first time it takes its own turn within the period, so that not
        all are asked at one moment."""
        moment, question = time.monotonic(), probe.question
        probe.late, probe.asked = answer.late, probe.asked + 1
        if answer.refused and not probe.liveness and probe.watched.standing.ready:
            due = moment + max(_SHORTEST, min(SOON, question.period / question.failures / 2))
        elif probe.asked == 1:
            share = zlib.crc32(probe.watched.replica.identity.encode()) / 2**32
            due = moment + question.period * (0.5 + share / 2)
        else:
            due = max(probe.due + question.period, moment + question.period / 20)
        self._schedule(probe, due)

    def _fold(self, probe: _Probe, answer: Answer) -> Iterator[tuple[str, Readiness | None]]:
        watched, now = probe.watched, self._now()
        before, shown = watched.standing, _shown(watched)
        if probe.liveness:
            age = now - watched.began
            watched.standing = after_liveness(before, answer, probe.question, age, now)
        else:
            lives = watched.replica.liveness is not None
            watched.standing = after_answer(before, answer, probe.question.failures, now, also_lives=lives)
        if watched.standing.readiness is not before.readiness:
            self._readings = None
        if _shown(watched) != shown:
            yield watched.replica.identity, watched.standing.readiness

    # In the prober's own threads

    def _run(self) -> None:
        while not self._stop.is_set():
            starting, told, pause = self._step()
            for asking in starting:
                self._workers.start(partial(self._answer, asking))
            self._tell(told, wake=True)
            self._news.wait(pause)
            self._news.clear()

    def _step(self) -> tuple[list[_Asking], list[tuple[str, Readiness | None]], float | None]:
        """Whom to ask now, who has changed by saying nothing, and how long nothing else is to do."""
        told: list[tuple[str, Readiness | None]] = []
        with self._lock:
            moment = time.monotonic()
            for asking in self._running:
                if not asking.given_up and asking.deadline <= moment:
                    told += self._give_up(asking)
            while self._agenda and self._agenda[0][0] <= moment:
                due, _, probe = heapq.heappop(self._agenda)
                if probe.over or probe.queued or probe.due != due:
                    continue
                if probe.asking is not None:
                    # The way there still hangs: that is no answer either.
                    told += self._fold(probe, late(probe.question))
                    self._schedule(probe, moment + probe.question.period)
                else:
                    probe.queued = True
                    self._waiting[probe.late].append(probe)
            starting = list(self._begin(moment))
            times = [each.deadline for each in self._running if not each.given_up]
            times += [self._agenda[0][0]] if self._agenda else []
            return starting, told, max(0.0, min(times) - moment) if times else None

    def _begin(self, moment: float) -> Iterator[_Asking]:
        for slow, waiting in self._waiting.items():
            while waiting and self._places.has_room(slow=slow):
                probe = waiting.popleft()
                probe.queued = False
                if probe.over:
                    continue
                asking = _Asking(probe, moment + probe.question.timeout + MARGIN, slow)
                probe.asking = asking
                self._running.add(asking)
                self._places.taken[slow] += 1
                yield asking

    def _give_up(self, asking: _Asking) -> Iterator[tuple[str, Readiness | None]]:
        """Its thread still waits, and keeps nobody from a place."""
        self._places.give_up(asking)
        if not asking.probe.over:
            answer = late(asking.probe.question)
            yield from self._fold(asking.probe, answer)
            self._plan_next(asking.probe, answer)

    def _answer(self, asking: _Asking) -> None:
        probe, ask = asking.probe, self._ask
        try:
            assert ask is not None, "whoever gave replicas has said how to ask them"
            answer = ask(probe.watched.replica, probe.question)
        except Exception as error:
            # What no provider may raise: of one replica, and nobody else's trouble.
            answer = Answer(False, f"{probe.question.what} cannot be asked: {type(error).__name__}")
        told: list[tuple[str, Readiness | None]] = []
        with self._lock:
            self._running.discard(asking)
            self._places.leave(asking)
            probe.asking = None
            if not asking.given_up and not probe.over:
                told += self._fold(probe, answer)
                self._plan_next(probe, answer)
        self._news.set()
        self._tell(told, wake=True)

    def _tell(self, told: list[tuple[str, Readiness | None]], *, wake: bool = False) -> None:
        for identity, readiness in told:
            for listener in self._listeners:
                listener(identity, readiness)
        if told and wake and not self._stop.is_set():
            self._wake()


def _ask_nobody(replica: Replica, question: Question) -> Answer:
    return late(question)


def _shown(watched: _Watched | None) -> tuple[bool, bool] | None:
    """What passes and requests go by."""
    readiness = watched.standing.readiness if watched is not None else None
    return (readiness.ready, bool(readiness.dead)) if readiness is not None else None


def _end_probes(watched: _Watched) -> None:
    for probe in watched.probes:
        probe.over = True
