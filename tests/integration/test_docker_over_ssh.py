"""Two Docker engines, each reached through its node's own SSH server: what is cut and killed between bai and
the engines costs time, and never a container too many or too few."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from providers.machines.base import Stream
from providers.machines.connections import close_connections
from providers.required_abilities import require_port_forward
from reconciler.values.plan import Plan
from reconciler.values.results import ApplyResult
from reconciler.workspace.workspace import Workspace
from tests.bai.web.apps.app_lab import Gate, app_lab
from tests.lab.cache import LabUnavailable
from tests.lab.docker import IMAGE, Engine, Engines
from tests.lab.sshd import SshdNode, SshdNodes, why_not
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker-clusters")

CLUSTER = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: far}
spec:
  provider: docker
  ssh: {user: root, keyFrom: lab/key, knownHostsFrom: lab/known_hosts}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: g0}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: g1}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
"""


@dataclass
class Lab:
    directory: Path
    engines: list[Engine]
    servers: list[SshdNode]

    def want(self, count: int) -> None:
        """Documents of this many sessions, on the nodes in turn."""
        documents = [
            {
                "apiVersion": "bai/v1",
                "kind": "Session",
                "metadata": {"name": f"s{n}", "project": "p"},
                "spec": {
                    "resourceGroup": f"g{n % 2}",
                    "image": IMAGE,
                    "command": ["sleep", "1000"],
                    "resources": {"cpu": "100m", "memory": "16MiB"},
                },
            }
            for n in range(count)
        ]
        (self.directory / "sessions.yaml").write_text("\n---\n".join(map(json.dumps, documents)))

    def notice_silence(self) -> None:
        """Nodes that say nothing for some seconds are given up."""
        path = self.directory / "lab.yaml"
        path.write_text(path.read_text().replace("ssh: {", "ssh: {keepAlive: 3s, connectTimeout: 10s, "))

    def plan(self) -> Plan:
        with self.workspace() as workspace:
            return workspace.plan()

    def apply(self) -> ApplyResult:
        with self.workspace() as workspace:
            return workspace.apply(workspace.plan(), holder="test")

    def workspace(self) -> Workspace:
        """As a new process has it."""
        close_connections()
        return Workspace.open(self.directory)

    def running(self) -> list[int]:
        """How many containers run on each engine, asked without bai."""
        return [len(engine.docker("ps", "-q").split()) for engine in self.engines]

    def all(self) -> int:
        return sum(len(engine.docker("ps", "-aq").split()) for engine in self.engines)


@pytest.fixture(scope="module")
def servers(engines: Engines) -> Iterator[tuple[SshdNodes, list[SshdNode]]]:
    if reason := why_not():
        pytest.skip(f"ssh lab: {reason}")
    two = engines(2)
    try:
        nodes = SshdNodes(engines.spaces)
        made = [nodes.on(engine.name, engine.namespace, engine.address) for engine in two]
    except LabUnavailable as error:
        pytest.skip(f"ssh lab: {error}")
    yield nodes, made
    for each in made:
        each.kill()


@pytest.fixture
def lab(
    engines: Engines,
    servers: tuple[SshdNodes, list[SshdNode]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Lab]:
    nodes, made = servers
    monkeypatch.setenv("HOME", str(nodes.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.delenv("BAI_STATE", raising=False)
    monkeypatch.setenv("BAI_SECRET_STORES", str(nodes.stores))
    two = engines(2)
    documents = [
        {
            "apiVersion": "bai/v1",
            "kind": "Node",
            "metadata": {"name": engine.name},
            "spec": {
                "address": engine.address,
                "resourceGroup": f"g{number}",
                "docker": {"socket": engine.socket},
            },
        }
        for number, engine in enumerate(two)
    ]
    (tmp_path / "lab.yaml").write_text("\n---\n".join([CLUSTER, *map(json.dumps, documents)]))
    with nodes.inside():
        yield Lab(tmp_path, two, made)
        close_connections()
    for server in made:
        server.link(up=True)
    for engine in two:
        engine.wipe()


def test_it_is_as_on_this_machine(lab: Lab) -> None:
    """Nothing but SSH leads to the engines: hardware, containers, logs and the end of all."""
    lab.want(4)
    plan = lab.plan()
    assert not [each for each in plan.warnings if "hardware" in each], plan.warnings
    assert lab.apply().ok
    assert lab.running() == [2, 2]
    assert not lab.plan().changes
    before = [server.log().count("Accepted publickey") for server in lab.servers]
    with lab.workspace() as workspace:
        kernels = workspace.provider.observe().kernels
        assert {kernel.state for kernel in kernels} == {"running"}
        for kernel in kernels:
            assert workspace.provider.execute(kernel.id, ("true",)) == 0
    after = [server.log().count("Accepted publickey") for server in lab.servers]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1], "one connection a node"
    lab.want(0)
    assert lab.apply().ok
    assert lab.all() == 0


def test_a_cable_that_is_cut_in_the_middle_of_an_apply(lab: Lab) -> None:
    """Sessions of the node that is still there start; the others start when it is back, none twice."""
    lab.want(2)
    assert lab.apply().ok
    lab.want(12)
    lab.notice_silence()
    with lab.workspace() as workspace:
        plan = workspace.plan()
        cut = threading.Event()

        def on_event(event: object) -> None:
            if not cut.is_set() and sum(lab.running()) > 3:
                cut.set()
                lab.servers[1].link(up=False)

        result = workspace.apply(plan, holder="test", on_event=on_event, parallel=2)
    assert cut.is_set()
    if result.ok:
        pytest.skip("all containers were made before the cable was cut")
    plan = lab.plan()
    assert [each.node for each in plan.unreached] == [lab.engines[1].name]
    lab.servers[1].link(up=True)
    until(lambda: not lab.plan().unreached)
    again = lab.apply()
    assert again.ok, [(each.action, each.outcome, each.error) for each in again.results]
    assert sum(lab.running()) == lab.all() == 12
    assert not lab.plan().changes


def test_a_server_that_is_killed_and_an_engine_that_is(lab: Lab) -> None:
    """The plan says which, and the containers go on."""
    lab.want(2)
    assert lab.apply().ok
    lab.servers[0].kill()
    (missed,) = lab.plan().unreached
    assert missed.node == lab.engines[0].name
    assert "connection refused" in missed.why
    assert lab.running() == [1, 1]
    lab.servers[0].start()
    assert not lab.plan().changes
    lab.engines[0].kill()
    (missed,) = lab.plan().unreached
    assert f"{lab.engines[0].socket}: connection refused" in missed.why
    lab.engines[0].restart()
    assert not lab.plan().unreached


def test_an_app_of_a_container_behind_ssh(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Through the real Caddy, which is where bai is: channels of SSH, many at a time."""
    site = "head -c 300000 /dev/zero | tr '\\0' x >/tmp/f; exec httpd -f -p 127.0.0.1:7070 -h /tmp"
    document = {
        "apiVersion": "bai/v1",
        "kind": "Session",
        "metadata": {"name": "site", "project": "p"},
        "spec": {
            "resourceGroup": "g0",
            "image": IMAGE,
            "command": ["sh", "-c", site],
            "resources": {"cpu": "100m", "memory": "16MiB"},
            "ports": [{"name": "http", "port": 7070}],
        },
    }
    (lab.directory / "sessions.yaml").write_text(json.dumps(document))
    assert lab.apply().ok
    with lab.workspace() as workspace:
        (kernel,) = workspace.store.recorded(workspace.cluster.name)["Session/p/site"].kernels
        forward = require_port_forward(workspace.provider, workspace.cluster)

        def dial(_: str, port: int) -> Stream:
            return forward.dial(kernel, port)

        with app_lab(tmp_path_factory.mktemp("storage"), dial=dial, gate=Gate(7070)) as apps:
            until(lambda: apps.ask(path="/f").status_code == 200, "it answers")
            with ThreadPoolExecutor(8) as threads:
                sizes = threads.map(lambda _: len(apps.ask(path="/f").content), range(24))
            assert {*sizes} == {300_000}
