"""Before it joins: a node is probed anew, and what cannot be probed does not join."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from providers.fake import FakeProvider, World
from providers.fake_provisioner import FakeNodes
from reconciler.values.plan import Plan
from reconciler.values.state import Actual
from schemas.hardware.model import Hardware
from tests.reconciler.lab import NODE, action, session
from tests.reconciler.nodes.lab import NodeLab

BARE = "apiVersion: bai/v1\nkind: Node\nmetadata: {{name: {name}}}\nspec: {{resourceGroup: default}}\n"


class ProbingProvider(FakeProvider):
    """Sees the GPUs of a node once its driver is there; cannot reach the engine before."""

    def __init__(self, world: World, machines: FakeNodes, shown: Mapping[str, Hardware]) -> None:
        super().__init__(world)
        self.machines, self.shown = machines, shown
        self.silent: set[str] = set()
        self.asked: list[str] = []

    def hardware(self, nodes: frozenset[str]) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        self.asked += sorted(nodes)
        found = {node: self.shown[node] for node in nodes - self.silent}
        return found, dict.fromkeys(nodes & self.silent, "no answer")


class BareLab(NodeLab):
    """Nodes that declare no hardware, and that nothing is known of before they are provisioned."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, nodes=2)
        declared = {node.name: node.spec.hardware for node in self.desired().nodes}
        shown = {name: hardware for name, hardware in declared.items() if hardware is not None}
        self.write({"nodes": "---\n".join(BARE.format(name=name) for name in self.names)})
        self.provider: ProbingProvider = ProbingProvider(self.world, self.machines, shown)

    def actual(self, *, offline: bool = False, check: bool = False) -> Actual:
        from dataclasses import replace

        found = super().actual(offline=offline, check=check)
        known = self.store.hardware("here")
        hardware = {n: Hardware.model_validate_json(each.hardware) for n, each in known.items()}
        return replace(found, hardware=hardware)


@pytest.fixture
def lab(tmp_path: Path) -> BareLab:
    return BareLab(tmp_path)


def reasons(plan: Plan) -> str:
    return "; ".join(reason.message for wait in plan.waits for reason in wait.reasons)


def test_a_node_is_probed_once_it_is_provisioned_and_then_takes_sessions(lab: BareLab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}")})
    assert "n1, n2: never provisioned" in reasons(lab.plan_nodes())
    assert lab.roll() == [("n1",), ("n2",)]
    assert lab.provider.asked == ["n1", "n2"]
    assert lab.place_of("a") in lab.names


def test_a_node_that_cannot_be_probed_does_not_join(lab: BareLab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    lab.provider.silent = {"n1"}
    result = lab.apply()
    assert {each.action: each.outcome for each in result.results}["Node/n1"] == "failed"
    assert lab.store.provision_records("here")["n1"].state == "failed"
    plan = lab.plan_nodes()
    assert "n1 was not probed" in action(plan, "Node/n1").why
    assert "its provisioning failed" in reasons(plan)
    lab.provider.silent = set()
    lab.roll()
    assert lab.place_of("a")


def test_a_node_whose_engine_is_not_there_yet_is_no_stranger(lab: BareLab) -> None:
    lab.world.down = {"n1": "no engine", "n2": "no engine"}
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    plan = lab.plan_nodes()
    assert plan.rollout is not None and plan.rollout.wave == ("n1",)
    assert not plan.unreached
    assert "never reached from here" not in reasons(plan)


def test_a_declared_node_is_not_probed(lab: BareLab) -> None:
    lab.write({"nodes": "---".join(NODE.format(name=name) for name in lab.names)})
    assert lab.roll() == [("n1",), ("n2",)]
    assert not lab.provider.asked
