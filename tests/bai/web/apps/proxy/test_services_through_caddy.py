"""Services through the real Caddy: which replica gets what, what a lost one costs, and how one is drained."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

from bai.web.apps.proxy.certificates import InternalCertificates
from tests.bai.web.apps.app_lab import HOST, app_lab, served, talk
from tests.bai.web.apps.proxy.service_lab import (
    LONG,
    ServiceLab,
    in_background,
    load,
    process,
    service_lab,
)
from tests.harness.ports import free_port
from tests.waiting import until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceLab]:
    with service_lab(tmp_path_factory.mktemp("storage")) as made:
        yield made


@pytest.fixture
def lab(shared: ServiceLab) -> Iterator[ServiceLab]:
    shared.world.dials.clear()
    yield shared
    for each in shared.world.servers.values():
        each.go_on.set()
        each.kill()
    shared.world.refused.clear()
    shared.world.deaf.clear()
    shared.use()


def test_each_request_goes_to_the_replica_with_the_fewest(lab: ServiceLab) -> None:
    one, _ = lab.start("fewest-1", "fewest-2")
    assert lab.in_turn(10) == {"fewest-1": 5, "fewest-2": 5}
    slow = [in_background(lambda: lab.who("/slow")) for _ in range(2)]
    until(lambda: sum(each.under_way for each in lab.world.servers.values()) == 2, "both are under way")
    assert {lab.balancer.connections(f"c/fewest-{n}") for n in (1, 2)} == {1}
    lab.world.servers["fewest-2"].go_on.set()
    until(lambda: lab.balancer.connections("c/fewest-2") == 0, "one is done")
    assert lab.in_turn(6, beside=1) == {"fewest-2": 6}
    one.go_on.set()
    until(lambda: all(slow), "both are answered")
    until(lambda: lab.balancer.connections("c/fewest-1") == 0, "the other one is done")


def test_requests_are_split_by_the_weights_of_generations(lab: ServiceLab) -> None:
    lab.start("old-1", "old-2", "new-1", "none-1")
    lab.use(
        lab.world.replica("old-1", "old", 37.5), lab.world.replica("old-2", "old", 37.5),
        lab.world.replica("new-1", "new", 25), lab.world.replica("none-1", "none", 0),
    )  # fmt: skip
    assert lab.in_turn(40) == {"old-1": 15, "old-2": 15, "new-1": 10}


def test_no_connection_to_a_replica_is_used_twice(lab: ServiceLab) -> None:
    lab.start("once")
    answer = lab.apps.ask()
    assert answer.text == "once 0 close"


def test_bodies_go_through_whole(lab: ServiceLab) -> None:
    lab.start("bodies")
    assert lab.apps.ask("POST", content=b"x" * 3_000_000).text.split(" ")[1] == "3000000"


def test_the_next_replica_is_asked_where_one_is_not_reached(lab: ServiceLab) -> None:
    """It is not dialled again for each request, and whatever the method is."""
    lab.start("there", "gone")
    lab.world.refused.add("gone")
    assert {lab.who(method=method) for method in ("GET", "POST") for _ in range(8)} == {"there"}
    assert 1 <= lab.world.dials.count("gone") < 8
    assert lab.balancer.connections("c/gone") == 0


def test_a_replica_that_takes_no_connection_holds_up_nobody_for_long(lab: ServiceLab) -> None:
    lab.start("hears", "deaf")
    lab.world.deaf.add("deaf")
    found = [in_background(lab.who) for _ in range(6)]
    until(lambda: all(found), "all are answered")
    assert [each[0] for each in found] == ["hears"] * 6
    assert lab.balancer.connections("c/deaf") == 0


def test_nobody_answers_where_no_replica_is_left(lab: ServiceLab) -> None:
    lab.use()
    answer = lab.apps.ask()
    assert (answer.status_code, answer.text) == (503, "no replica answers")


def test_what_only_reads_is_asked_again_and_what_writes_is_not(lab: ServiceLab) -> None:
    """A replica may have done what it was asked before it ended."""
    servers = lab.start("dying-1", "dying-2")
    for method, times in (("GET", 4), ("POST", 1), ("DELETE", 1)):
        before = sum(len(each.requests) for each in servers)
        assert lab.apps.ask(method, "/dies").status_code == 503
        assert sum(len(each.requests) for each in servers) - before == times
    before = sum(len(each.requests) for each in servers)
    assert lab.apps.ask("GET", "/dies", content=b"with a body").status_code == 503
    assert lab.apps.ask("GET", "/dies", content=iter([b"of no known length"])).status_code == 503
    assert sum(len(each.requests) for each in servers) - before == 2


def test_a_replica_that_is_drained_ends_what_it_has(lab: ServiceLab) -> None:
    one, two = lab.start("drained", "other")
    slow = in_background(lambda: lab.who("/slow"))
    until(lambda: one.under_way + two.under_way == 1, "it is under way")
    busy, free = (one, two) if one.under_way else (two, one)
    draining = lab.drained(busy.name, LONG)
    until(lambda: draining.told, "it is told")
    assert draining.told[0] == 1
    assert {lab.who() for _ in range(10)} == {free.name}
    assert not draining.over and not slow
    busy.go_on.set()
    until(lambda: draining.over, "it is drained")
    assert draining.left == 0
    until(lambda: slow, "the slow one is answered")
    assert slow == [busy.name]


def test_nothing_goes_to_the_last_replica_while_it_is_drained(lab: ServiceLab) -> None:
    lab.start("last")
    draining = lab.drained("last", LONG)
    until(lambda: draining.over, "there is nothing to wait for")
    assert lab.apps.ask().status_code == 503
    lab.use("last")
    assert lab.who() == "last"


def test_a_drain_ends_with_its_time_and_with_the_server(lab: ServiceLab) -> None:
    """It cuts nothing itself."""
    (one,) = lab.start("busy")
    slow = in_background(lambda: lab.who("/slow"))
    until(lambda: one.under_way == 1, "it is under way")
    short = lab.drained("busy", 0.05)
    until(lambda: short.over, "its time is over")
    long = lab.drained("busy", LONG)
    until(lambda: long.told, "it waits")
    long.stop.set()
    until(lambda: long.over, "the server ends")
    assert (short.left, long.left, slow) == (1, 1, []) and short.has == 0 and long.has > 0
    one.go_on.set()
    until(lambda: slow, "it is answered")
    assert slow == ["busy"]


def test_a_websocket_is_one_connection_for_as_long_as_it_lasts(lab: ServiceLab) -> None:
    with served(Starlette(routes=[WebSocketRoute("/ws", talk)])) as port:
        lab.world.ports["sockets"] = port
        lab.use("sockets")
        with lab.apps.talk() as websocket:
            websocket.send("hello")
            assert websocket.recv() == "heard hello"
            draining = lab.drained("sockets", LONG)
            until(lambda: draining.told, "it waits")
            websocket.send("still there")
            assert websocket.recv() == "heard still there"
            assert set(draining.told) == {1} and not draining.over, "it is told now and then"
        until(lambda: draining.over, "it has ended")
        assert draining.left == 0


def test_a_replica_that_is_killed_costs_what_was_under_way_there(lab: ServiceLab) -> None:
    """And of that nothing that only reads."""
    lab.start("survivor-1", "survivor-2")
    with process(lab, "process") as victim:
        lab.use("process", "survivor-1", "survivor-2")
        with load(lab, 9, ("GET", "HEAD", "POST")) as clients:
            until(lambda: clients.answers.count("process") > 20, "all of them answer")
            victim.kill()
            victim.wait()
            clients.goes_on(100)
        with load(lab, 9, ("GET", "HEAD", "POST")) as later:
            later.goes_on(50)
    assert len(clients.failed) <= 3, "one for each client that writes"
    assert all(each.startswith("POST 503") for each in clients.failed), clients.failed
    assert later.failed == [] and set(later.answers) <= {"survivor-1", "survivor-2", ""}


def test_twenty_updates_under_load_cost_no_request(lab: ServiceLab) -> None:
    """Each replica makes way for a new one: that is ready first, then the old one is drained and killed."""
    names = ["update-0-1", "update-0-2"]
    lab.start(*names)
    with load(lab, 8, ("GET", "POST")) as clients:
        for update in range(1, 21):
            for number in (0, 1):
                new = f"update-{update}-{number + 1}"
                lab.world.start(new)
                old, names[number] = names[number], new
                lab.use(*(lab.world.replica(each, each.split("-")[1]) for each in names))
                draining = lab.drained(old, LONG)
                until(lambda draining=draining: draining.over, "it is drained")  # type: ignore[misc]
                assert lab.world.servers[old].kill() == 0
            clients.goes_on(8 + 1)  # One more than may have been answered by those before.
    assert clients.failed == []
    assert len({each for each in clients.answers if each}) >= 20


def test_replicas_that_speak_tls_themselves_and_streams_that_come_as_they_are_sent(
    lab: ServiceLab, tmp_path: Path
) -> None:
    with app_lab(tmp_path, certificates=InternalCertificates()) as outer:
        lab.world.ports["tls"] = outer.port
        lab.use("tls")
        lab.apps.gate.protocol = "https"
        try:
            assert lab.apps.told()["host"] == HOST
            with httpx.stream("GET", f"{lab.apps.url}/sse", headers={"Host": HOST}, timeout=60) as stream:
                lines = stream.iter_lines()
                assert next(lines) == "data: first"
                until(lambda: lab.balancer.connections("c/tls") == 1, "the one before is over")
                outer.go_on.set()
                assert "data: second" in list(lines)
        finally:
            lab.apps.gate.protocol = ""
    until(lambda: lab.balancer.connections("c/tls") == 0, "it is over")


def test_a_port_where_nobody_listens_is_another_replicas_request(lab: ServiceLab) -> None:
    """By the real dial."""
    lab.start("listens")
    lab.world.ports["silent"] = free_port()
    lab.use("listens", "silent")
    assert {lab.who() for _ in range(6)} == {"listens"}


def test_a_client_that_goes_away_while_it_waits_leaves_nothing_behind(lab: ServiceLab) -> None:
    (one,) = lab.start("left")
    stop = threading.Event()
    with load(lab, 4) as clients:
        clients.goes_on(20)
    until(lambda: lab.balancer.connections("c/left") == 0, "all have ended")
    assert lab.balancer.drain("c/left", LONG, LONG, lambda left: None, stop) == 0
    assert one.under_way == 0
