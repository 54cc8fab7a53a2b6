"""Commands that look once, and what they remember from one look to the next; loops that stand by."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from providers.base import Provider
from providers.declared import DeclaredProvider
from reconciler.observe.readiness import one_round
from reconciler.observe.readiness.ask import ask
from reconciler.observe.readiness.one_round import ask_once
from reconciler.observe.readiness.questions import Question, Replica
from reconciler.observe.readiness.standing import Answer, Ask
from reconciler.values.services.readiness import Readiness
from reconciler.values.state import Actual, Desired
from reconciler.workspace.replica_readiness import ReplicaReadiness
from tests.lab.spaces import PATIENCE
from tests.reconciler.readiness.replicas import (
    CLUSTER,
    STARTED,
    Dials,
    actual,
    answers,
    desired,
    existing,
    numbered,
    pattern,
    replica,
    replicas,
    server,
)
from tests.waiting import until

PATIENT = "2m"
CHECK = {"http": {"port": "http"}, "failures": 2, "timeout": PATIENT}
BEGAN = STARTED.timestamp()


@pytest.fixture(autouse=True)
def threads_may_be_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine they are, and nobody is late who does not hang."""
    monkeypatch.setattr(one_round, "LONGEST", PATIENCE)


def readings(found: Mapping[str, Any]) -> list[Readiness]:
    return [each.standing.readiness for each in found.values()]


def test_each_counts_as_it_is_now_since_it_was_started() -> None:
    of = pattern(readiness=CHECK)
    found = replicas(of, existing(of, 1), existing(of, 2), existing(of, 3, phase="PULLING"))
    well = next(iter(found.values())).kernel
    asked = ask_once(found, lambda one, question: Answer(one.kernel == well, "no"), BEGAN + 100, {})
    ready, bad, pulling = readings(asked)
    assert ready == Readiness(True, BEGAN)
    assert bad == Readiness(False, BEGAN, "no")
    assert pulling == Readiness(False, BEGAN, "it is PULLING")


def test_a_look_goes_on_from_the_one_before() -> None:
    of = pattern(readiness=CHECK)
    found = replicas(of)
    good = ask_once(found, lambda one, question: Answer(True), BEGAN + 10, {})
    once = ask_once(found, lambda one, question: Answer(False, "no"), BEGAN + 20, good)
    assert readings(once) == readings(good), "once is not enough"
    twice = ask_once(found, lambda one, question: Answer(False, "no"), BEGAN + 30, once)
    assert readings(twice) == [Readiness(False, BEGAN + 30, "no")]
    other = replicas(of, existing(of, run=2))
    anew = ask_once(other, lambda one, question: Answer(False, "no"), BEGAN + 30, good)
    assert readings(anew) == [Readiness(False, BEGAN, "no")], "the kernels are other ones"


def test_who_looks_once_asks_liveness_of_those_that_never_answered_it() -> None:
    """One that never did is not ready, and is not dead either: that takes somebody who keeps asking."""
    of = pattern((), liveness={"command": ["check"], "failures": 1, "grace": "0s", "timeout": PATIENT})
    asked: list[str] = []

    def says(good: bool) -> Ask:
        def answer(one: Replica, question: Question) -> Answer:
            asked.append(question.what)
            return Answer(good, "no")

        return answer

    bad = ask_once(replicas(of), says(False), BEGAN + 5, {})
    why = "it has not answered its liveness probe yet: no"
    assert readings(bad) == [Readiness(False, BEGAN, why)]
    good = ask_once(replicas(of), says(True), BEGAN + 9, bad)
    assert readings(good) == [Readiness(True, BEGAN + 9)]
    assert readings(ask_once(replicas(of), says(False), BEGAN + 15, good)) == readings(good)
    assert asked == ["`check`"] * 2


def test_all_are_asked_side_by_side() -> None:
    many = numbered(replica(pattern(readiness=CHECK)), 50)
    all_there = threading.Barrier(50)

    def meet(one: Replica, question: Question) -> Answer:
        all_there.wait(60)
        return Answer(True)

    assert all(each.ready for each in readings(ask_once(many, meet, BEGAN, {})))


def test_who_hangs_is_waited_for_no_longer_than_it_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its service allows an hour, and where the way there never ends."""
    monkeypatch.setattr(one_round, "LONGEST", 0.5)
    base = replica(pattern(readiness={**CHECK, "timeout": "1h"}))
    many = numbered(base, 20)
    hanging = next(iter(many))
    free = threading.Event()

    def hang(one: Replica, question: Question) -> Answer:
        assert question.timeout == 0.5
        if one.identity == hanging:
            free.wait(120)
        return Answer(True)

    class Unhurried(threading.Condition):
        """What is left of the time is waited for once all others have answered."""

        def wait_for(self, predicate: Any, timeout: float | None = None) -> Any:
            answers = predicate.__self__._answers
            super().wait_for(lambda: len(answers) == len(many) - 1, PATIENCE)
            return super().wait_for(predicate, timeout)

    monkeypatch.setattr(one_round, "threading", SimpleNamespace(Condition=Unhurried))
    try:
        found = ask_once(many, hang, time.time(), {})
    finally:
        free.set()
    unready = [name for name, each in found.items() if not cast(Readiness, each.standing.readiness).ready]
    assert unready == [hanging]


def test_a_provider_that_cannot_ask_makes_it_unready_and_says_why() -> None:
    one = replica(pattern(readiness=CHECK, liveness={"command": ["check"]}))
    provider = DeclaredProvider()
    assert one.readiness is not None and one.liveness is not None
    found = ask(provider, CLUSTER, one, one.readiness)
    assert (found.good, found.refused) == (False, False)
    assert "cannot forward ports" in found.why and "GET / of port http cannot be asked" in found.why
    assert "cannot open terminals for others" in ask(provider, CLUSTER, one, one.liveness).why


def test_a_refusal_is_told_from_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.observe.readiness.ask.AT_ONCE", PATIENCE)
    one = replica(pattern(readiness=CHECK))
    assert one.readiness is not None
    refused = Dials().ask(one, one.readiness)
    assert refused.refused and refused.why == "GET / of port http cannot be reached: connection refused"


@dataclass
class Opened:
    """What a workspace has."""

    wanted: Desired
    dials: Dials
    cluster = CLUSTER

    @property
    def provider(self) -> Provider:
        return cast(Provider, self.dials)

    def desired(self) -> Desired:
        return self.wanted


def test_without_services_nothing_is_looked_at() -> None:
    readiness, found = ReplicaReadiness(time.time), actual(existing(pattern()))
    readiness.keep_asking(lambda: None)
    assert readiness.add_readiness(found, Opened(desired(), Dials())) is found


def test_what_is_asked_for_again_is_what_a_plan_rests_on() -> None:
    of = pattern(readiness={**CHECK, "failures": 1})
    first, second = existing(of, 1), existing(of, 2)
    opened, seen = Opened(desired(of), Dials()), actual(first, second)
    looks = ReplicaReadiness(lambda: BEGAN)
    with server(answers(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        opened.dials.ports = {each.recorded.kernels[0]: port for each in (first, second)}
        assert all(each.ready for each in looks.add_readiness(seen, opened).readiness.values())
        assert list(looks.look_again(opened, seen, (first.id,))) == [first.id]
    again = looks.look_again(opened, seen, (first.id, "Session/p/gone"))
    assert [(name, each.ready) for name, each in again.items()] == [(first.id, False)]


def test_a_loop_plans_and_acts_on_one_look() -> None:
    """Between its plan and its apply nothing turns, however often replicas do: else it would never act."""
    of = pattern(readiness={**CHECK, "period": "1s", "failures": 1})
    found = existing(of)
    opened, seen = Opened(desired(of), Dials()), actual(found)
    woken = threading.Event()
    readiness = ReplicaReadiness(time.time)
    readiness.keep_asking(woken.set)
    try:
        readiness.add_readiness(seen, opened)
        assert woken.wait(60)
        planned = readiness.add_readiness(seen, opened).readiness
        assert [each.ready for each in planned.values()] == [False]
        assert readiness.add_readiness(seen, opened).readiness is planned
        with server(answers(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
            opened.dials.ports = {found.recorded.kernels[0]: port}
            until(lambda: (now := readiness.ready(found.id)) is not None and now.ready, "it turns")
            assert readiness.look_again(opened, seen, (found.id,)) is planned
    finally:
        readiness.halt()


def test_a_loop_that_stands_by_asks_nobody() -> None:
    of = pattern(readiness={**CHECK, "period": "1s"})
    found = existing(of)
    opened, seen = Opened(desired(of), Dials()), actual(found)
    readiness = ReplicaReadiness(time.time)
    readiness.keep_asking(lambda: None)
    heard: list[str] = []
    readiness.add_listener(lambda name, known: heard.append(f"{name} {known.ready if known else None}"))
    try:
        readiness.add_readiness(seen, opened)
        until(lambda: readiness.ready(found.id), "it is asked")
        until(lambda: heard, "who listens hears of it")
        readiness.rest()
        assert readiness.ready(found.id) is None
        assert heard == [f"{found.id} False", f"{found.id} None"]
        readiness.add_readiness(seen, opened)
        until(lambda: readiness.ready(found.id), "it leads again")
    finally:
        readiness.halt()


def test_replicas_of_a_service_that_is_gone_are_forgotten() -> None:
    of = pattern(())
    seen: Actual = actual(existing(of))
    readiness = ReplicaReadiness(time.time)
    readiness.keep_asking(lambda: None)
    assert len(readiness.add_readiness(seen, Opened(desired(of), Dials())).readiness) == 1
    gone = Opened(desired(), Dials())
    assert readiness.add_readiness(seen, gone).readiness == {}
    assert readiness.add_readiness(replace(seen), gone).readiness == {}
