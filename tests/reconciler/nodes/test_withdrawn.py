"""Devices that a node has, and does not offer for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from providers.base import Observation
from providers.fake import FakeProvider
from providers.foreign_use import OfferedDevices
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.values.plan import Plan
from reconciler.workspace.workspace import Workspace
from schemas.hardware.model import UNKNOWN_CORES, Hardware
from tests.reconciler.lab import BASE, session

NODES = "".join(
    f"---\napiVersion: bai/v1\nkind: Node\nmetadata: {{name: {name}}}\nspec: {{resourceGroup: default}}\n"
    for name in ("one", "two")
)
WHY = "withdrawn while its kubelet begins anew"
ON_ONE = "placement: {nodes: [one]}"
TWO_GPUS = "resources: {cpu: 1, cuda.device: 2}"


def machine(name: str, gpus: int = 2, nics: int = 0, *, cores: bool = True) -> Hardware:
    """`cores`: whether the place of each CPU is known."""
    found: dict[str, Any] = {
        "numaNodes": [{"id": 0, "cpus": "0-7", "memory": 32 << 30}],
        "gpus": [{"id": f"GPU-{name}-{number}", "index": number} for number in range(gpus)],
        "nics": [{"id": f"mlx5_{number}", "rdma": True} for number in range(nics)],
        "unknown": [] if cores else [UNKNOWN_CORES],
    }
    return Hardware.model_validate(found)


class Published(FakeProvider):
    """Its nodes offer what drivers publish there; a probe sees that and no more."""

    def __init__(self, machines: Mapping[str, Hardware]) -> None:
        super().__init__()
        self.machines = dict(machines)
        self.asked: list[list[str]] = []

    def hardware(self, nodes: frozenset[str]) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        self.asked.append(sorted(nodes))
        return {node: self.machines[node] for node in sorted(nodes)}, {}

    def observe(self) -> Observation:
        offered = {
            name: frozenset((*(gpu.id for gpu in seen.gpus), *(nic.id for nic in seen.nics)))
            for name, seen in self.machines.items()
        }
        cores = frozenset(name for name, seen in self.machines.items() if seen.knows_cores)
        return replace(super().observe(), offered=OfferedDevices(offered, cores, WHY))

    def withdraw(self, name: str, **left: Any) -> None:
        self.machines[name] = machine(name, **{"gpus": 0, **left})


@pytest.fixture
def provider() -> Published:
    return Published({name: machine(name) for name in ("one", "two")})


class Site:
    def __init__(self, folder: Path, provider: Published) -> None:
        self.folder, self.provider = folder, provider
        self.said: list[str] = []
        (folder / "base.yaml").write_text(BASE + NODES)
        workspace = Workspace.open(folder)
        workspace.provider = provider
        self.loop = Loop(workspace, LoopOptions("the test", 1), log=self.said.append)

    def want(self, name: str, spec: str) -> None:
        (self.folder / f"{name}.yaml").write_text(session(name, spec))

    def passes(self, count: int = 1) -> list[str]:
        """What the loop says in so many passes."""
        self.said.clear()
        for _ in range(count):
            assert self.loop.once(), self.said
        return self.said

    def plan(self) -> Plan:
        """As another process would make it, which knows what is in the store alone."""
        with Workspace.open(self.folder) as workspace:
            workspace.provider = self.provider
            return workspace.plan()


@pytest.fixture
def site(tmp_path: Path, provider: Published) -> Site:
    return Site(tmp_path, provider)


def waits(plan: Plan) -> str:
    return "; ".join(reason.message for wait in plan.waits for reason in wait.reasons)


def test_what_is_withdrawn_is_given_to_nobody_and_taken_from_nobody(site: Site, provider: Published) -> None:
    site.want("kept", f"resources: {{cpu: 1, cuda.device: 1}}, {ON_ONE}")
    site.passes(2)
    provider.withdraw("one")
    site.want("late", f"resources: {{cpu: 1, cuda.device: 1}}, {ON_ONE}")
    said = site.passes(3)
    assert not any("Session/p/kept" in line for line in said), said
    plan = site.plan()
    assert not plan.changes
    assert f"all 2 GPUs of one are out of placement: {WHY}" in waits(plan)
    provider.machines["one"] = machine("one")
    assert "created Session/p/late: its turn has come" in site.passes(1)
    assert provider.world.created.count(next(each for each in provider.world.created if "kept" in each)) == 1
    assert not site.plan().waits and not site.plan().changes
    assert provider.asked == [["one", "two"]], "the record stays what it was"


def test_others_and_sessions_without_devices_go_on(site: Site, provider: Published) -> None:
    provider.withdraw("one", gpus=1)
    provider.asked.clear()
    site.passes()
    provider.machines["one"] = machine("one")
    site.passes()
    provider.withdraw("one")
    site.want("plain", f"resources: {{cpu: 1}}, {ON_ONE}")
    site.want("elsewhere", TWO_GPUS)
    said = site.passes()
    assert {"created Session/p/plain: new", "created Session/p/elsewhere: new"} <= set(said)
    assert any(kernel.spec.labels.node == "two" for kernel in provider.world.kernels.values())


@pytest.mark.parametrize(
    ("had", "left", "why"),
    [
        ({"cores": True}, {"cores": False, "gpus": 2}, f"its cores are {WHY}"),
        ({"nics": 1}, {"nics": 0, "gpus": 2}, f"its mlx5_0 is {WHY}"),
    ],
)
def test_without_its_cores_or_nics_a_node_takes_nothing_new(
    site: Site, provider: Published, had: dict[str, Any], left: dict[str, Any], why: str
) -> None:
    provider.machines["one"] = machine("one", **had)
    site.passes()
    provider.withdraw("one", **left)
    site.want("late", f"resources: {{cpu: 1}}, {ON_ONE}")
    site.passes()
    plan = site.plan()
    assert not plan.changes and f"nothing new is placed on one: {why}" in plan.warnings
    provider.machines["one"] = machine("one", **had)
    assert "created Session/p/late: its turn has come" in site.passes()


def test_what_ends_there_meanwhile_begins_where_there_are_devices(site: Site, provider: Published) -> None:
    site.want("s", "resources: {cpu: 1, cuda.device: 1}")
    site.passes(2)
    (first,) = provider.world.kernels.values()
    provider.withdraw(first.spec.labels.node)
    provider.world.vanish(first.spec.id)
    site.passes(2)
    (again,) = provider.world.kernels.values()
    assert again.spec.labels.node != first.spec.labels.node


def test_a_node_that_was_probed_while_it_offered_nothing_is_probed_again(
    site: Site, provider: Published
) -> None:
    provider.withdraw("one", cores=False)
    site.want("s", f"{TWO_GPUS}, {ON_ONE}")
    site.passes()
    provider.withdraw("one", gpus=2, cores=False)
    assert "created Session/p/s: its turn has come" in site.passes()
    provider.machines["one"] = machine("one")
    site.passes(2)
    assert provider.asked == [["one", "two"], ["one"], ["one"]]
    assert not site.plan().waits and not site.plan().changes
    assert len(provider.asked) == 3
