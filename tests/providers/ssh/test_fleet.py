"""Fifty nodes over real SSH, each with what answers as a Docker engine: some are slow, some are cut off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from providers.base import Observation
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.machines import connections
from providers.machines.poll import LIMIT, LONGEST_PAUSE, NodePoll
from providers.machines.ssh.machine import SshMachine
from tests.lab.answering_engine import HANGS, AnsweringEngines, answering_engines
from tests.lab.sshd import SshdNode, SshdNodes
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("sshd")
COUNT = 50


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.poll = NodePoll(clock=lambda: self.now)

    def move(self, seconds: float) -> None:
        self.now += seconds
        self.poll.wake()


@dataclass
class Fleet:
    nodes: dict[str, SshdNode]
    engines: AnsweringEngines
    provider: DockerProvider
    time: Time

    def observe(self) -> Observation:
        return self.provider.observe()

    def observe_past(self, bad: set[str]) -> Observation:
        """An observation in which all others answer, and the limit of these passes."""
        found: list[Observation] = []
        looking = threading.Thread(target=lambda: found.append(self.observe()))
        looking.start()
        until(lambda: self.time.poll.awaited == bad, "all others have answered")
        self.time.move(LIMIT)
        looking.join(60)
        return found[0]

    def logins(self) -> int:
        return sum(node.log().count("Accepted publickey") for node in self.nodes.values())

    def connected(self) -> int:
        machines = [engine.machine for engine in self.provider.engines.values()]
        return sum(each.ssh_connection.connected for each in machines if isinstance(each, SshMachine))


@pytest.fixture
def fleet(sshd_nodes: SshdNodes, tmp_path: Path) -> Iterator[Fleet]:
    connections.close_connections()
    nodes = {node.name: node for node in sshd_nodes(COUNT)}
    with sshd_nodes.inside(), answering_engines(tmp_path, list(nodes)) as engines:
        there = [  # So many logins at once take long on a machine with little else than that to do.
            replace(node.endpoint(connectTimeout="2m"), options={"socket": engines.socket(name)})
            for name, node in nodes.items()
        ]
        with closing(open_docker({}, machines=there)) as provider:
            time = Time()
            provider.fleet.poll = time.poll
            yield Fleet(nodes, engines, provider, time)
            for name, node in nodes.items():
                node.link(up=True)
                engines.mend(name)
            until(lambda: not time.poll.open, "nobody is asked any more")
        connections.close_connections()


def test_connections_are_kept_between_passes(fleet: Fleet) -> None:
    before = fleet.logins()
    for _ in range(3):
        assert not fleet.observe().unreachable
        fleet.provider.capabilities()
    assert fleet.connected() == COUNT
    assert fleet.logins() - before == COUNT


def test_slow_nodes_and_nodes_that_are_cut_off_hold_up_nobody(fleet: Fleet) -> None:
    assert not fleet.observe().unreachable
    slow, cut = {"s3", "s4", "s5"}, {"s11", "s12"}
    for name in slow:
        fleet.engines.delay(name, HANGS)
    for name in cut:
        fleet.nodes[name].link(up=False)
    before = {name: len(fleet.engines.requests(name)) for name in slow}
    seen = fleet.observe_past(slow | cut)
    # Whom all others were faster than may have been asked, and not have heard of it yet.
    until(lambda: all(len(fleet.engines.requests(name)) > before[name] for name in slow), "they are asked")
    assert seen.unreachable == dict.fromkeys(
        sorted(slow | cut, key=lambda n: int(n[1:])), "no answer within 20 s"
    )
    asked = {name: len(fleet.engines.requests(name)) for name in fleet.nodes}
    assert fleet.observe().unreachable.keys() == slow | cut, "at once: they are not waited for"
    assert not fleet.provider.capabilities().cautions
    for name in fleet.nodes:
        assert (len(fleet.engines.requests(name)) > asked[name]) == (name not in slow | cut)
    for name in slow:
        fleet.engines.mend(name)
    for name in cut:
        fleet.nodes[name].link(up=True)
    until(lambda: not fleet.time.poll.open, "what was asked has an end")
    fleet.time.move(LONGEST_PAUSE)
    assert not fleet.observe().unreachable, "all are seen again"


def test_no_more_connections_than_wanted_are_kept(fleet: Fleet) -> None:
    """What travels on them between passes, a kept one to an engine, does not keep them open."""
    connections.set_connection_limit(COUNT - 10)
    try:
        for _ in range(3):
            assert not fleet.observe().unreachable
            assert fleet.connected() <= COUNT - 10
    finally:
        connections.set_connection_limit(connections.LIMIT)
