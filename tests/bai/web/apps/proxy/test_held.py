"""Requests that wait for the first replica of a service that sleeps, and what they cost others."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.apps.proxy import balancer as module
from bai.web.apps.proxy.balancer import GIVEN_UP, HELD_OF_PROJECT, Balancer, Replica
from bai.web.apps.proxy.service_way import ServiceWay, Terms
from bai.web.apps.proxy.tunnels import Tunnels
from providers.machines.base import Stream
from providers.machines.relay import DIALS
from tests.bai.web.apps.app_lab import HOST
from tests.bai.web.apps.proxy.service_lab import SERVICE, ServiceGate, ServiceLab, in_background, service_lab
from tests.bai.web.apps.proxy.test_tunnels import reached
from tests.waiting import until

WEB, OTHER = "c/Service/p/web", "c/Service/q/web"
LONG = 600.0


class Ends:
    """Of what was dialled, the far ones."""

    def __init__(self) -> None:
        self.far: list[socket.socket] = []

    def dial(self, place: str, port: int) -> Stream:
        near, far = socket.socketpair()
        far.settimeout(60)
        self.far.append(far)
        return near


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def tunnels(ends: Ends, said: list[str]) -> Iterator[Tunnels]:
    folder = Path(tempfile.mkdtemp(prefix="bai-held-"))
    made = Tunnels(folder, ends.dial, said.append)
    yield made
    made.close()
    shutil.rmtree(folder)


def replica(name: str) -> Replica:
    return Replica(f"c/{name}", "g", 1.0, lambda port: port, lambda: True)


def waiting(tunnels: Tunnels, service: str) -> int:
    return tunnels.balancer.requests(service).in_flight


def test_who_waits_is_served_when_there_is_a_replica(tunnels: Tunnels, ends: Ends) -> None:
    with reached(tunnels.service_address(WEB, 80, LONG)) as near:
        near.sendall(b"early")
        until(lambda: waiting(tunnels, WEB) == 1, "the autoscaler hears of it")
        assert not ends.far
        tunnels.balancer.update("c", {WEB: [replica("a")]})
        until(lambda: bool(ends.far), "it is dialled")
        assert ends.far[0].recv(5) == b"early"


def test_one_projects_waiting_requests_take_nothing_of_others(tunnels: Tunnels, ends: Ends) -> None:
    """Any number of requests of services that never start: of two, so that no bound of one helps."""
    addresses = [tunnels.service_address(f"c/Service/p/{name}", 80, LONG) for name in ("web", "api")]
    held = [reached(addresses[number % 2]) for number in range(HELD_OF_PROJECT)]
    try:
        until(lambda: waiting(tunnels, WEB) + waiting(tunnels, "c/Service/p/api") == HELD_OF_PROJECT)
        with reached(addresses[0]) as one_more:
            assert one_more.recv(1) == b""
        assert "too many requests wait" in tunnels.failure(WEB, 80)
        with reached(tunnels.service_address(OTHER, 80, LONG)):
            until(lambda: waiting(tunnels, OTHER) == 1, "another project's service is woken")
        assert HELD_OF_PROJECT > DIALS
        with reached(tunnels.address("session", 80)) as near:
            near.sendall(b"x")
            until(lambda: bool(ends.far), "who waits takes no dial of others")
            assert ends.far[0].recv(1) == b"x"
    finally:
        for each in held:
            each.close()


def test_all_who_wait_leave_room_for_those_who_are_served(
    tunnels: Tunnels, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 3)
    held = [reached(tunnels.service_address(f"c/Service/p{n}/web", 80, LONG)) for n in range(3)]
    until(lambda: all(waiting(tunnels, f"c/Service/p{n}/web") == 1 for n in range(3)))
    with reached(tunnels.service_address(WEB, 80, LONG)) as refused:
        assert refused.recv(1) == b""
    tunnels.balancer.update("c", {WEB: [replica("a")]})
    with reached(tunnels.service_address(WEB, 80, LONG)) as near:
        near.sendall(b"x")
        until(lambda: bool(ends.far), "a replica that is there is asked")
    for each in held:
        each.close()


def test_who_has_gone_waits_no_more(tunnels: Tunnels, said: list[str]) -> None:
    """Nobody wakes a service for an hour by connections that he closes at once."""
    near = reached(tunnels.service_address(WEB, 80, LONG))
    near.sendall(b"GET / HTTP/1.1\r\n\r\n")
    until(lambda: waiting(tunnels, WEB) == 1)
    near.close()
    until(lambda: waiting(tunnels, WEB) == 0, "its place is free")
    until(lambda: "has gone" in tunnels.failure(WEB, 80), "it is told why")


def test_time_to_wait_ends_and_the_proxys_second_try_does_not_wait_as_long(
    tunnels: Tunnels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GIVEN_UP", LONG)
    address = tunnels.service_address(WEB, 80, 0.2)
    with reached(address) as near:
        assert near.recv(1) == b""
    assert "within 0.2 seconds" in tunnels.failure(WEB, 80)
    tunnels.service_address(WEB, 80, LONG)
    with reached(address) as near:
        assert near.recv(1) == b""
    assert "did in vain" in tunnels.failure(WEB, 80)


def test_after_a_moment_others_wait_again() -> None:
    now = [0.0]
    balancer = Balancer(lambda: now[0])
    way = ServiceWay(balancer, WEB, 80, lambda place, port: socket.socket(), Terms(0.01))
    asyncio.run(way.wait(lambda: False))
    assert not balancer.hold(WEB) and balancer.hold(OTHER)
    now[0] += GIVEN_UP
    assert balancer.hold(WEB)


def test_how_long_the_first_replica_takes_is_not_its_latency() -> None:
    """Or one slow start would have as many more started as there may be."""
    now = [0.0]
    balancer = Balancer(lambda: now[0])

    def gone() -> bool:
        now[0] = 60.0
        balancer.update("c", {WEB: [replica("a")]})
        return False

    way = ServiceWay(balancer, WEB, 80, lambda place, port: socket.socket(), Terms(LONG))
    asyncio.run(way.wait(gone))
    now[0] += 0.5
    way.answered()
    assert balancer.requests(WEB).latencies == (0.5,)


# Through Caddy


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceLab]:
    with service_lab(tmp_path_factory.mktemp("storage")) as made:
        assert isinstance(made.apps.gate, ServiceGate)
        made.apps.gate.hold = LONG
        yield made


def test_the_first_request_is_answered_when_a_replica_has_come(lab: ServiceLab) -> None:
    found = in_background(lab.who)
    until(lambda: lab.balancer.requests(SERVICE).in_flight == 1, "it waits")
    lab.start("first")
    until(lambda: bool(found), "it is answered")
    assert found == ["first"]
    lab.use()


def test_a_browser_that_has_gone_waits_no_more(lab: ServiceLab) -> None:
    lab.use()
    with socket.create_connection(("127.0.0.1", lab.apps.port), timeout=60) as stream:
        stream.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        until(lambda: lab.balancer.requests(SERVICE).in_flight == 1, "it waits")
    until(lambda: lab.balancer.requests(SERVICE).in_flight == 0, "nobody waits")


def test_when_nobody_comes_the_page_says_so(lab: ServiceLab) -> None:
    assert isinstance(lab.apps.gate, ServiceGate)
    lab.use()
    lab.apps.gate.hold = 0.2
    try:
        found = lab.apps.ask()
        assert found.status_code == 503 and "no replica" in found.text
    finally:
        lab.apps.gate.hold = LONG
