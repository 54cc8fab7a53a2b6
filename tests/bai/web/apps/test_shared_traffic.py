"""Servers on one store that hand requests to the same replicas: what each hears of the others. No Caddy, and
no thread but those that drain: rounds are made by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bai.web.apps.proxy.balancer import Balancer
from bai.web.apps.replica_traffic import ReplicaTraffic, place_of
from bai.web.apps.shared_traffic import BEAT, FORGOTTEN, LINGER, SAY_EVERY, SILENT, SharedTraffic
from reconciler.store.store import Store
from reconciler.values.services.server_report import (
    SavedReport,
    ServerReport,
    count_latencies,
    read_report,
    report_text,
    sample_of,
)
from reconciler.values.state import Actual
from tests.bai.web.apps.test_services import pattern, picture, replica
from tests.waiting import until

SERVICE = "Service/p/web"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def kernel(number: int) -> str:
    return f"web-{pattern().generation}-{number}-k"


class Server:
    """Of one cluster; its own connection to the store."""

    def __init__(self, path: Path, clock: Clock, *, leads: bool = True) -> None:
        self.store, self.balancer, self.clock = Store.open(path), Balancer(clock), clock
        self.woken = threading.Event()
        self.leads = leads
        self.shared = SharedTraffic("here", self.balancer, lambda: self.store, lambda: self.leads, clock)
        self.traffic = ReplicaTraffic(
            "here", self.balancer, lambda line: None, self.woken.set, None, self.shared
        )

    def plan(self, *numbers: int, leaving: int = 0) -> None:
        """A pass saw these replicas, and takes one of them away."""
        web, them = pattern(), [replica(pattern(), each) for each in numbers]
        if leaving:
            them.append(replica(web, leaving, "leaving", 0))
        plan, actual = picture(*them)
        self.traffic.follow(plan, actual)

    def open(self, *tried: int) -> int:
        """Begins a connection; gives the number of its replica, 0 for none."""
        found = self.balancer.choose(f"here/{SERVICE}", [place_of("here", kernel(each)) for each in tried])
        return int(found.place.split("-")[-2]) if found is not None else 0

    def end(self, number: int) -> None:
        self.balancer.over(place_of("here", kernel(number)))

    def drains(self, number: int, grace: float = 1e6) -> Draining:
        return Draining(
            lambda: self.traffic.drain(kernel(number), grace, lambda left: None, threading.Event())
        )


class Draining:
    def __init__(self, drain: Callable[[], bool]) -> None:
        self.ended: list[bool] = []
        self._thread = threading.Thread(target=lambda: self.ended.append(drain()), daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        until(lambda: self.ended, "it is over")
        return self.ended[0]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., Server]]:
    with ExitStack() as ends:

        def begin(**options: Any) -> Server:
            made = Server(tmp_path / "store.db", clock, **options)
            ends.callback(made.store.close)
            return made

        yield begin


@pytest.fixture
def pair(make: Callable[..., Server]) -> tuple[Server, Server]:
    """Both serve two replicas and know each other."""
    one, other = make(), make()
    for each in (one, other):
        each.plan(1, 2)
    rounds(one, other, 3)
    return one, other


def rounds(one: Server, other: Server, count: int) -> None:
    for _ in range(count):
        for each in (one, other):
            each.shared.look()


def started(server: Server, number: int) -> None:
    """Its drain has begun."""
    until(lambda: server.balancer.connections(place_of("here", kernel(number))) > 0, "it waits for others")


def test_a_replica_is_drained_when_no_server_has_a_connection_to_it(pair: tuple[Server, Server]) -> None:
    one, other = pair
    assert other.open(2) == 1 and other.open(2) == 1
    one.plan(2, leaving=1)
    drain = one.drains(1)
    started(one, 1)
    rounds(one, other, 2)
    assert {other.open() for _ in range(5)} == {2}, "nothing new for it, though this one's pass has it ready"
    assert not drain.ended
    other.end(1)
    other.clock.now += SAY_EVERY
    rounds(other, one, 2)
    assert not drain.ended
    other.end(1)
    other.clock.now += SAY_EVERY
    rounds(other, one, 2)
    assert drain.wait() is True


def test_nobody_is_believed_to_have_none_before_having_heard_of_it(pair: tuple[Server, Server]) -> None:
    """Between a server's last word and its next one, it may begin what it will."""
    one, other = pair
    one.plan(2, leaving=1)
    drain = one.drains(1)
    started(one, 1)
    for _ in range(3):
        one.shared.look()
    assert other.open(2) == 1 and not drain.ended
    rounds(other, one, 2)
    assert not drain.ended
    other.end(1)
    other.clock.now += SAY_EVERY
    rounds(other, one, 2)
    assert drain.wait() is True


def test_what_takes_its_place_is_known_with_it(pair: tuple[Server, Server]) -> None:
    """A server that stands by learns of the plan when the pass is over: by then the last old one is gone."""
    one, other = pair
    other.plan(1)
    one.plan(3, leaving=1)
    one.drains(1)
    started(one, 1)
    rounds(one, other, 2)
    assert {other.open() for _ in range(3)} == {3}
    found = other.balancer.routes(f"here/{SERVICE}")
    assert [(each.listening(80), each.listening(81)) for each in found] == [(8080, 81)]
    other.plan(3)
    assert other.open() == 3


def test_a_server_that_begins_meanwhile_knows_who_is_drained(
    make: Callable[..., Server], pair: tuple[Server, Server]
) -> None:
    one, other = pair
    one.plan(2, leaving=1)
    one.drains(1)
    started(one, 1)
    rounds(one, other, 2)
    third = make()
    third.plan(1, 2)
    third.shared.start()
    try:
        assert {third.open() for _ in range(4)} == {2}
    finally:
        third.shared.close()


def test_a_server_that_died_is_forgotten_in_seconds(pair: tuple[Server, Server], clock: Clock) -> None:
    one, other = pair
    assert other.open(2) == 1
    one.plan(2, leaving=1)
    drain = one.drains(1)
    started(one, 1)
    rounds(one, other, 2)
    clock.now += SILENT - 1
    one.shared.look()
    assert one.balancer.connections(place_of("here", kernel(1))) == 1
    clock.now += 2
    one.shared.look()
    assert one.balancer.connections(place_of("here", kernel(1))) == 0
    until(lambda: drain.ended == [True] or one.woken.is_set(), "this apply goes on, or the next one")
    clock.now += FORGOTTEN
    one.shared.look()
    assert set(one.store.server_reports("here")) == {one.shared.server}


def test_alone_a_server_says_nothing_but_whom_it_drains(make: Callable[..., Server], clock: Clock) -> None:
    one = make()
    one.shared.look()
    one.plan(1, 2)
    one.shared.scaled = {SERVICE}

    def beat() -> int:
        clock.now += BEAT
        one.shared.look()
        return one.store.server_reports("here")[one.shared.server].beat

    before = beat()
    for _ in range(20):
        one.balancer.begin(f"here/{SERVICE}")
        one.open()
    assert {beat() for _ in range(5)} == {before}
    one.plan(2, leaving=1)
    one.drains(1, grace=0)
    until(lambda: one.shared._draining, "it is drained")
    assert beat() == before + 1


def test_words_do_not_grow_in_number_with_requests(pair: tuple[Server, Server], clock: Clock) -> None:
    one, other = pair
    other.shared.scaled = one.shared.scaled = {SERVICE}
    before = other.store.server_reports("here")[other.shared.server].beat
    for _ in range(200):
        clock.now += SAY_EVERY / 20
        other.balancer.begin(f"here/{SERVICE}")
        rounds(other, one, 1)
    said = other.store.server_reports("here")[other.shared.server]
    assert said.beat - before <= 11
    one.shared.look()
    assert one.balancer.requests(f"here/{SERVICE}").in_flight >= 150, "the autoscaler knows both servers'"
    assert one.balancer.requests(f"here/{SERVICE}", here_alone=True).in_flight == 0


def test_who_stands_by_gives_nothing_to_a_replica_that_turned(make: Callable[..., Server]) -> None:
    """Its pass is as old as the leader's last one."""
    one, other = make(), make(leads=False)
    other.plan(1, 2)
    rounds(one, other, 3)
    web = pattern()
    plan, actual = picture(replica(web, 1, "unready"), replica(web, 2))
    one.traffic.follow(plan, actual)
    one.clock.now += SAY_EVERY
    rounds(one, other, 2)
    assert {other.open() for _ in range(4)} == {2}
    one.plan(1, 2)
    one.clock.now += SAY_EVERY
    rounds(one, other, 2)
    assert other.open(2) == 1


def test_a_drain_is_remembered_until_others_have_seen_that_it_is_gone(
    pair: tuple[Server, Server], clock: Clock
) -> None:
    one, other = pair
    one.plan(2, leaving=1)
    drain = one.drains(1)
    started(one, 1)
    rounds(one, other, 3)
    assert drain.wait() is True
    one.traffic.follow(picture()[0], Actual("repo", "here"))
    rounds(one, other, 2)
    assert {other.open() for _ in range(4)} == {2}, "it is told to stop just now"
    clock.now += LINGER + 1
    one.plan(2)
    rounds(one, other, 2)
    assert other.open(2) == 1, "so far as this server has seen it is there"


def test_one_that_stays_after_all_gets_requests_again(pair: tuple[Server, Server]) -> None:
    one, other = pair
    one.plan(2, leaving=1)
    one.drains(1)
    started(one, 1)
    rounds(one, other, 2)
    one.plan(1, 2)
    rounds(one, other, 2)
    assert other.open(2) == 1


@pytest.mark.parametrize("text", ["", "no", "[]", "{}", "[" * 100_000, '{"serves": true, "draining": 7}'])
def test_what_nobody_understands_holds_nobody_up(pair: tuple[Server, Server], text: str) -> None:
    """Another version of bai's may say it in other words."""
    one, other = pair
    one.store.put_server_report("here", other.shared.server, SavedReport(99, text))
    one.plan(2, leaving=1)
    drain = one.drains(1)
    started(one, 1)
    one.shared.look()
    one.shared.look()
    assert drain.wait() is True


def foremost(clock: Clock, *servers: Server, seconds: float = 2 * SILENT) -> list[Server]:
    """Who it is after a while in which all of them look, and never two at a time."""
    for _ in range(round(seconds)):
        clock.now += 1
        for each in servers:
            each.shared.look()
        assert sum(each.shared.is_foremost() for each in servers) <= 1
    return [each for each in servers if each.shared.is_foremost()]


def test_who_leads_does_what_one_of_them_does(make: Callable[..., Server], clock: Clock) -> None:
    one, other = make(leads=False), make(leads=True)
    assert foremost(clock, one, other) == [other]
    one.leads, other.leads = True, False
    assert one.shared.is_foremost() and not other.shared.is_foremost()
    assert foremost(clock, one, other) == [one]


def test_where_none_leads_the_first_of_them_does_it(make: Callable[..., Server], clock: Clock) -> None:
    """`bai reconcile` leads, and has no apps. Not at once: another one may begin to lead just now."""
    servers = [make(leads=False) for _ in range(3)]
    first, second, third = sorted(servers, key=lambda each: each.shared.server)
    assert foremost(clock, *servers, seconds=SILENT / 2) == []
    assert foremost(clock, *servers) == [first]
    assert foremost(clock, second, third, seconds=2 * SILENT + 2) == [second], "the first one was killed"
    assert not first.shared.is_foremost(), "it may be that it is there, and the store is not, for it"
    first.shared.look()
    assert not first.shared.is_foremost(), "another one does it until it has heard"
    third.leads = True
    assert third.shared.is_foremost()
    third.shared.look()
    second.shared.look()
    assert not second.shared.is_foremost()


def test_one_that_is_alone_does_it(make: Callable[..., Server], clock: Clock) -> None:
    one = make(leads=False)
    assert foremost(clock, one) == [one]


def test_whose_words_nobody_understands_may_lead(make: Callable[..., Server], clock: Clock) -> None:
    one = make(leads=False)
    for beat in range(20):
        one.store.put_server_report("here", "another", SavedReport(beat, "{}"))
        assert foremost(clock, one, seconds=1) == []
    assert foremost(clock, one, seconds=2 * SILENT + 2) == [one], "it says nothing more"


def test_latencies_are_told_in_few_numbers() -> None:
    seconds = [0.0, *(0.001 * each for each in range(1, 10_001))]
    counts = count_latencies(seconds)
    assert len(counts) < 250 and sum(counts.values()) == len(seconds)
    found = sorted(sample_of(counts, 100_000))
    assert all(abs(a - b) <= 0.026 * b for a, b in zip(found, seconds, strict=True) if b)
    assert len(sample_of({0: 10**9}, 100)) == 100
    report = ServerReport(True, heard={"k": 1})
    assert read_report(report_text(report)) == report
