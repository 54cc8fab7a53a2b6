"""Replicas are asked again and again, each in its own time, and whoever waits hears of what changes."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.observe.readiness import prober as module
from reconciler.observe.readiness.prober import Prober
from reconciler.observe.readiness.questions import Question, Replica
from reconciler.observe.readiness.standing import Answer, late
from reconciler.values.services.readiness import Readiness
from tests.reconciler.readiness.replicas import (
    Dials,
    answers,
    existing,
    numbered,
    pattern,
    replica,
    replicas,
    server,
)
from tests.waiting import soon, until

PATIENT = "2m"
"""As long as a question may take: on a busy machine threads are held up, and only who hangs is late."""
CHECK = {"http": {"port": "http"}, "period": "1s", "failures": 2, "timeout": PATIENT}


class World:
    """What replicas would say, by kernel; and who was asked when."""

    def __init__(self) -> None:
        self.says: dict[str, Answer] = {}
        self.hangs: set[str] = set()
        self.held: set[str] = set()
        """Those that have begun to hang."""
        self.free = threading.Event()
        self.asked: list[tuple[float, str, Question]] = []
        self.woken = Counter[str]()
        self.heard: list[tuple[str, Readiness | None]] = []
        self.prober = Prober(time.time, lambda: self.woken.update(["wake"]))
        self.prober.add_listener(lambda name, readiness: self.heard.append((name, readiness)))

    def ask(self, one: Replica, question: Question) -> Answer:
        self.asked.append((time.monotonic(), one.kernel, question))
        if one.kernel in self.hangs:
            self.held.add(one.kernel)
            self.free.wait(120)
        return self.says.get(one.kernel, Answer(True))

    def watch(self, found: dict[str, Replica]) -> None:
        self.prober.watch(found, self.ask)

    def ready(self, identity: str) -> bool | None:
        known = self.prober.ready(identity)
        return known.ready if known is not None else None

    def turns(self) -> list[bool]:
        """Ready or not, as it was heard; who asks may know it a moment before."""
        return [readiness.ready for _, readiness in self.heard if readiness]

    def count(self, kernel: str) -> int:
        return sum(name == kernel for _, name, _ in self.asked)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.free.set()
    made.prober.halt()


def quick(one: Replica, **changes: Any) -> Replica:
    """Asked so often that nobody waits for it here."""
    question = replace(one.readiness or Question("tcp", "x"), **{"period": 0.05, **changes})
    return replace(one, readiness=question)


def probers() -> set[threading.Thread]:
    """All of this process, those that tests before have left, too."""
    return {each for each in threading.enumerate() if each.name.startswith("replica-probe")}


def test_a_replica_is_asked_until_it_is_known_and_news_wakes(world: World) -> None:
    one = quick(replica(pattern(readiness=CHECK)))
    world.says[one.kernel] = Answer(False, "refused")
    world.watch({one.identity: one})
    until(lambda: world.ready(one.identity) is False, "it is known")
    until(lambda: world.woken["wake"] == 1, "somebody is woken")
    before = world.prober.readings()
    asked = world.count(one.kernel)
    until(lambda: world.count(one.kernel) > asked + 3, "it is asked again")
    assert world.prober.readings() is before and world.woken["wake"] == 1, "nothing was news"
    world.says[one.kernel] = Answer(True)
    until(lambda: world.ready(one.identity), "it is ready")
    until(lambda: world.woken["wake"] == 2, "somebody is woken")
    assert world.turns() == [False, True]
    assert world.prober.readings()[one.identity].since > before[one.identity].since


def test_only_failures_in_a_row_make_it_unready(world: World) -> None:
    one = quick(replica(pattern(readiness=CHECK)), failures=3)
    said = iter([True, False, False, True, False, False, False])
    count = 0

    def ask(asked: Replica, question: Question) -> Answer:
        nonlocal count
        count += 1
        return Answer(next(said, False), "no")

    world.prober.watch({one.identity: one}, ask)
    until(lambda: world.ready(one.identity) is False, "it has failed three times in a row")
    assert count >= 7
    until(lambda: len(world.turns()) > 1, "who listens hears of it")
    assert world.turns() == [True, False]


def test_without_services_there_is_no_thread_and_nothing_to_ask(world: World) -> None:
    before = probers()
    world.watch({})
    world.watch(replicas(pattern(())))
    assert [each.ready for each in world.prober.readings().values()] == [True]
    assert not probers() - before and world.asked == []


def test_what_needs_no_question_is_ready_while_it_runs(world: World) -> None:
    of = pattern(())
    found = existing(of)
    world.watch(replicas(of, found))
    known = world.prober.ready(found.id)
    assert known is not None and known.since == replica(of).run.began
    world.watch(replicas(of, replace(found, phase="TERMINATING")))
    known = world.prober.ready(found.id)
    assert known is not None and (known.ready, known.why) == (False, "it is TERMINATING")


def test_one_whose_kernels_are_other_ones_is_asked_anew(world: World) -> None:
    """By what the old ones answered nobody is let in."""
    of = pattern(readiness=CHECK)
    first = quick(replica(of))
    world.watch({first.identity: first})
    until(lambda: world.ready(first.identity), "it is ready")
    for changed in (
        existing(of, run=2), existing(of, run=2, restarts=1), existing(of, run=2, started=datetime.now(UTC))
    ):  # fmt: skip
        second = quick(replica(of, changed))
        world.hangs = {second.kernel}
        world.watch({second.identity: second})
        assert world.ready(second.identity) is None and second.identity not in world.prober.readings()
        world.hangs = set()
        world.free.set()
        until(lambda: world.ready(first.identity), "the new one is ready")
        world.free.clear()


def test_one_that_is_out_of_sight_is_asked_on(world: World) -> None:
    """A node that cannot be looked at makes nobody unready who answers."""
    of = pattern(readiness=CHECK)
    one = quick(replica(of))
    world.watch({one.identity: one})
    until(lambda: world.ready(one.identity), "it is ready")
    known = world.prober.ready(one.identity)
    unseen = quick(replica(of, existing(of, started=None)))
    world.watch({one.identity: unseen})
    assert world.prober.ready(one.identity) is known
    world.watch({one.identity: one})
    assert world.prober.ready(one.identity) is known


def test_one_that_goes_is_forgotten_and_not_asked_any_more(world: World) -> None:
    one = quick(replica(pattern(readiness=CHECK)))
    world.watch({one.identity: one})
    until(lambda: world.ready(one.identity), "it is ready")
    until(world.turns, "who listens hears of it")
    world.watch({})
    assert world.ready(one.identity) is None and world.prober.readings() == {}
    assert world.heard[-1] == (one.identity, None)
    asked = world.count(one.kernel)
    assert not soon(lambda: world.count(one.kernel) > asked + 1, seconds=0.5)


def test_another_probe_of_the_same_kernels_is_asked_at_once(world: World) -> None:
    slow = replica(pattern(readiness={**CHECK, "period": "1h"}))
    world.watch({slow.identity: slow})
    until(lambda: world.ready(slow.identity), "it is ready")
    known = world.prober.ready(slow.identity)
    other = replica(pattern(readiness={"http": {"port": "http", "path": "/other"}, "period": "1h"}))
    world.watch({slow.identity: replace(other, run=slow.run)})
    until(lambda: world.asked[-1][2].path == "/other", "it is asked the other thing")
    assert world.prober.ready(slow.identity) is known


def test_those_that_hang_keep_nobody_from_being_asked(world: World) -> None:
    """Hundreds of replicas take all the time they can, and longer, and the others' answers come as they
    would."""
    before, base = probers(), quick(replica(pattern(readiness=CHECK)), period=0.2)
    hanging = numbered(quick(base, period=0.2, timeout=0.2), 300)
    well = {f"well{n}": replace(base, identity=f"well{n}", kernel=f"well{n}") for n in range(20)}
    world.hangs = {each.kernel for each in hanging.values()}
    world.watch({**hanging, **well})
    until(lambda: all(world.ready(name) for name in well), "those that answer are ready")
    until(lambda: sum(world.ready(name) is False for name in hanging) > 100, "many are known to hang")
    counts = [world.count(name) for name in well]
    until(lambda: all(world.count(n) > c + 5 for n, c in zip(well, counts, strict=True)), "asked on")
    assert len(probers() - before) <= len(hanging) + module.MOST + 1
    assert all(world.ready(name) for name in well)
    known = world.prober.readings()[next(n for n in hanging if world.ready(n) is False)]
    assert known.why.endswith("no answer within 0.2 s")


def test_no_more_are_asked_at_a_time_than_are_allowed(world: World) -> None:
    base = replica(pattern(readiness={**CHECK, "timeout": "1h"}))
    many = numbered(base, 200)
    world.hangs = {each.kernel for each in many.values()}
    world.watch(many)
    until(lambda: len(world.asked) == module.MOST - module.MOST_LATE, "all places are taken")
    assert not soon(lambda: len(world.asked) > module.MOST - module.MOST_LATE, seconds=0.3)
    world.free.set()
    until(lambda: len(world.prober.readings()) == 200, "all were asked")


def test_a_way_there_that_hangs_counts_as_no_answer_again_and_again(world: World) -> None:
    """A dial that takes minutes, of a ready replica: it is unready after its failures, and not after the
    dial."""
    one = quick(replica(pattern(readiness=CHECK)), timeout=0.1, failures=3)
    world.watch({one.identity: one})
    until(lambda: world.ready(one.identity), "it is ready")
    world.hangs = {one.kernel}
    until(lambda: world.held, "it hangs")
    until(lambda: world.ready(one.identity) is False, "it is not any more")
    hung = world.count(one.kernel)
    assert not soon(lambda: world.count(one.kernel) > hung, seconds=0.3), "one question at a time"
    world.hangs = set()
    world.free.set()
    until(lambda: world.ready(one.identity), "it is again")


def test_a_late_answer_counts_for_nothing(world: World) -> None:
    one = quick(replica(pattern(readiness=CHECK)), timeout=0.1, period=3600.0)
    world.hangs = {one.kernel}
    world.watch({one.identity: one})
    until(lambda: world.ready(one.identity) is False, "its time is up")
    world.free.set()
    assert not soon(lambda: world.ready(one.identity), seconds=0.3)


def test_a_ready_one_that_is_closed_is_asked_again_at_once(world: World) -> None:
    """Within its period, however long that is, it is known to be gone."""
    one = quick(replica(pattern(readiness=CHECK)), period=3600.0, failures=3)
    world.watch({one.identity: one})
    until(lambda: world.ready(one.identity), "it is ready")
    world.says[one.kernel] = Answer(False, "refused", refused=True)
    # Another question is asked at once, and so the period begins with an answer that is refused.
    world.watch({one.identity: quick(one, path="/other", period=3600.0)})
    until(lambda: world.ready(one.identity) is False, "it is not ready")
    assert [question.path for _, _, question in world.asked].count("/other") == 3


def test_those_of_one_moment_are_not_asked_again_at_one_moment(world: World) -> None:
    """By when they are due: of a process that was held up meanwhile all are due by then."""
    many = numbered(quick(replica(pattern(readiness=CHECK)), period=3600.0), 40)
    world.watch(many)
    until(lambda: len(world.prober.readings()) == 40, "all were asked once")
    due = [at for at, _, _ in world.prober._agenda]
    assert len(due) == 40 and max(due) - min(due) > 900


def test_one_that_fails_its_liveness_probe_is_dead(world: World) -> None:
    alive = {"command": ["check"], "failures": 2, "period": "1s", "grace": "0s", "timeout": PATIENT}
    one = replica(pattern((), liveness=alive))
    assert one.liveness is not None
    one = replace(one, liveness=replace(one.liveness, period=0.05))
    world.says[one.kernel] = Answer(False, "`check` ended with 1")
    world.watch({one.identity: one})

    def dead() -> str:
        known = world.prober.ready(one.identity)
        return known.dead if known is not None else ""

    until(dead, "it is dead")
    assert dead() == "it failed its liveness probe 2 times in a row: `check` ended with 1"
    assert world.ready(one.identity) is False
    until(lambda: world.woken["wake"] == 2, "somebody is woken both times")
    other = existing(pattern((), liveness=alive), run=2)
    again = replace(replica(pattern((), liveness=alive), other), liveness=None)
    world.watch({one.identity: again})
    assert not dead(), "the new one is not"


def test_one_is_ready_once_it_has_answered_both_probes(world: World) -> None:
    """Before both have been answered, nobody knows how it is: one that serves is not called unready for a
    moment, because somebody began to ask."""
    alive = {"command": ["check"], "period": "1s", "timeout": PATIENT}
    one = quick(replica(pattern((), liveness=alive, readiness={"command": ["ready"], "timeout": PATIENT})))
    free = threading.Event()
    readiness: list[bool | None] = []

    def ask(asked: Replica, question: Question) -> Answer:
        if question.what == "`check`":
            free.wait(60)
        return Answer(True)

    world.prober.add_listener(lambda name, known: readiness.append(known.ready if known else None))
    world.prober.watch({one.identity: one}, ask)
    assert world.prober.ready(one.identity) is None
    free.set()
    until(lambda: world.ready(one.identity), "it is ready")
    until(lambda: readiness, "who listens hears of it")
    assert readiness == [True]


def test_within_its_grace_nothing_counts(world: World) -> None:
    of = pattern((), liveness={"command": ["check"], "failures": 1, "period": "1s", "grace": "1h"})
    young = replica(of, existing(of, started=datetime.now(UTC)))
    ahead = replica(of, existing(of, 2, started=datetime.now(UTC) + timedelta(days=1)))
    old = replica(of, existing(of, 3, started=datetime.now(UTC) - timedelta(days=1)))
    found = {each.identity: each for each in (young, ahead, old)}
    world.says = {each.kernel: Answer(False, "no") for each in found.values()}
    world.watch(found)
    until(lambda: len(world.prober.readings()) == 3, "all were asked")
    until(lambda: world.prober.readings()[old.identity].dead, "the old one is dead")
    assert not world.prober.readings()[young.identity].dead
    assert not world.prober.readings()[ahead.identity].dead


def test_a_provider_that_breaks_is_an_answer(world: World) -> None:
    one = quick(replica(pattern(readiness=CHECK)))

    def ask(asked: Replica, question: Question) -> Answer:
        raise RuntimeError("never to be shown")

    world.prober.watch({one.identity: one}, ask)
    until(lambda: world.ready(one.identity) is False, "it is known")
    known = world.prober.ready(one.identity)
    assert known is not None and known.why == "GET / of port http cannot be asked: RuntimeError"


def test_halted_nobody_is_asked_and_nobody_woken(world: World) -> None:
    one = quick(replica(pattern(readiness=CHECK)))
    world.watch({one.identity: one})
    until(lambda: world.ready(one.identity), "it is ready")
    until(lambda: world.woken["wake"] == 1, "somebody is woken")
    thread = world.prober._thread
    assert thread is not None
    world.prober.halt()
    thread.join(60)
    assert not thread.is_alive()
    asked, woken = world.count(one.kernel), world.woken["wake"]
    world.says[one.kernel] = Answer(False, "no")
    assert not soon(lambda: world.count(one.kernel) > asked + 1, seconds=0.3)
    assert world.woken["wake"] == woken and world.ready(one.identity), "what was known stays known"


def test_real_servers_come_and_go(world: World) -> None:
    """Over connections: refused, HTTP 503, HTTP 200, and hanging."""
    one = quick(replica(pattern(readiness=CHECK)), timeout=0.5, failures=1)
    dials = Dials()
    world.prober.watch({one.identity: one}, dials.ask)

    def why() -> str:
        known = world.prober.ready(one.identity)
        return known.why if known is not None else ""

    until(lambda: "cannot be reached: connection refused" in why(), "it is refused")
    with server(answers(b"HTTP/1.1 503 No\r\n\r\n")) as port:
        dials.ports[one.kernel] = port
        until(lambda: why().endswith("is answered with 503"), "it says so")
    with server(answers(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        dials.ports[one.kernel] = port
        until(lambda: world.ready(one.identity), "it is ready")
    until(lambda: world.ready(one.identity) is False, "it is closed")
    over = threading.Event()

    def hang(connection: socket.socket) -> None:
        over.wait(60)

    with server(hang) as port:
        dials.ports[one.kernel] = port
        until(lambda: why() == late(one.readiness or Question("tcp", "x")).why, "it hangs")
        over.set()
