"""A real node that cannot be reached any more: its sessions start elsewhere or wait, as their documents say,
and what is left of them goes when it is back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.machines.connections import close_connections
from reconciler.values.results import ApplyResult
from reconciler.workspace.workspace import Workspace
from tests.lab.docker import IMAGE, Engine, Engines

pytestmark = pytest.mark.xdist_group("docker-clusters")

BASE = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: lossy}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
spec: {selection: dispersed}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
"""
HARDWARE = {"numaNodes": [{"id": 0, "cpus": "0-1", "memory": "4GiB"}]}


class Lab:
    """Two engines and the repository of their cluster."""

    def __init__(self, directory: Path, engines: list[Engine]) -> None:
        self.directory = directory
        self.engines = engines
        nodes = [
            {
                "apiVersion": "bai/v1", "kind": "Node", "metadata": {"name": engine.name},
                "spec": {"address": "localhost", "hardware": HARDWARE, "docker": {"socket": engine.socket}},
            }
            for engine in engines
        ]  # fmt: skip
        (directory / "base.yaml").write_text("\n---\n".join([BASE, *map(json.dumps, nodes)]))
        self.want("moves", {"after": "1s", "then": "reschedule"})
        self.want("stays", {"after": "1s", "then": "wait"})

    def want(self, name: str, loss: dict[str, str]) -> None:
        spec = {"image": IMAGE, "command": ["sleep", "1000"], "nodeLoss": loss}
        spec["resources"] = {"cpu": "100m", "memory": "16MiB"}
        document = {"apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": name, "project": "p"}}
        (self.directory / f"{name}.yaml").write_text(json.dumps(document | {"spec": spec}))

    def open(self) -> Workspace:
        """As a new process has it."""
        close_connections()
        return Workspace.open(self.directory)

    def apply(self) -> ApplyResult:
        with self.open() as workspace:
            return workspace.apply(workspace.plan(), holder="test")

    def pinned(self, name: str, node: str) -> None:
        """Only there."""
        path = self.directory / f"{name}.yaml"
        document = json.loads(path.read_text())
        document["spec"]["placement"] = {"nodes": [node]}
        path.write_text(json.dumps(document))

    def containers(self, engine: Engine) -> list[str]:
        """Sessions with a running container, asked without bai."""
        said = engine.docker("ps", "--format", '{{.Label "bai.resource"}} {{.Label "bai.generation"}}')
        return sorted(said.splitlines())


@pytest.fixture
def lab(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.delenv("BAI_STATE", raising=False)
    two = engines(2)
    for engine in two:
        engine.wipe()
    made = Lab(tmp_path, two)
    yield made
    for engine in engines(2):
        engine.wipe()


def test_a_lost_node_is_left_or_waited_for_and_its_ghosts_go_when_it_is_back(lab: Lab) -> None:
    lost, other = lab.engines
    lab.pinned("stays", lost.name)
    assert lab.apply().ok
    with lab.open() as workspace:
        placed = workspace.actual().existing["Session/p/moves"].recorded.placement
    assert placed is not None
    if placed.kernels[0].node == other.name:
        lost, other = other, lost
        lab.pinned("stays", lost.name)
        assert lab.apply().ok
    before = lab.containers(lost)
    assert [line.split()[0] for line in before] == ["Session/p/moves", "Session/p/stays"]
    assert lab.containers(other) == []

    lost.kill()
    with lab.open() as workspace:
        workspace.refresh(holder="test")
        since = workspace.clock.now()
    with lab.open() as workspace:
        while workspace.clock.now() < since + 1:
            workspace.clock.sleep(0.1)
        plan = workspace.plan()
        (missed,) = plan.unreached
        assert missed.node == lost.name
        assert [action.id for action in plan.changes] == ["Session/p/moves"]
        assert workspace.apply(plan, holder="test").ok
    (moved,) = lab.containers(other)
    assert moved.split()[0] == "Session/p/moves" and moved not in before
    with lab.open() as workspace:
        assert not workspace.plan().changes, "it is waited for, and no third copy is made"

    lost.start()
    lost.wait()
    assert lab.apply().ok
    assert lab.containers(other) == [moved]
    assert [line.split()[0] for line in lab.containers(lost)] == ["Session/p/stays"]
    with lab.open() as workspace:
        plan = workspace.plan()
        assert not plan.changes and not plan.unreached
