"""Hardware of nodes that are far away: probed once, remembered, probed again when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from providers.fake import FakeProvider
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.workspace.workspace import Workspace
from schemas.hardware.model import Hardware
from tests.reconciler.lab import BASE, session

NODES = """
apiVersion: bai/v1
kind: Node
metadata: {name: one}
spec: {address: 10.0.0.1, resourceGroup: default}
---
apiVersion: bai/v1
kind: Node
metadata: {name: two}
spec: {address: 10.0.0.2, resourceGroup: default}
"""


def machine(cpus: str) -> Hardware:
    return Hardware.model_validate({"numaNodes": [{"id": 0, "cpus": cpus, "memory": 32 << 30}]})


class Probing(FakeProvider):
    """Its nodes are as the test says: hardware, or why they cannot be probed."""

    def __init__(self, machines: Mapping[str, Hardware | str]) -> None:
        super().__init__()
        self.machines = machines
        self.asked: list[list[str]] = []

    def hardware(self, nodes: frozenset[str]) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        self.asked.append(sorted(nodes))
        given = {node: self.machines[node] for node in sorted(nodes)}
        return (
            {node: each for node, each in given.items() if isinstance(each, Hardware)},
            {node: each for node, each in given.items() if isinstance(each, str)},
        )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "all.yaml").write_text("---".join([BASE, NODES, session("s", "resources: {cpu: 2}")]))
    return tmp_path


def opened(repository: Path, provider: Probing) -> Workspace:
    workspace = Workspace.open(repository)
    workspace.provider = provider
    return workspace


def test_unknown_nodes_are_probed_by_the_first_plan_only(repository: Path) -> None:
    provider = Probing({"one": machine("0-3"), "two": machine("0-7")})
    for _ in range(3):
        with opened(repository, provider) as workspace:
            plan = workspace.plan()
            assert plan.waits == (), "the session has its place"
            assert not [warning for warning in plan.warnings if "hardware" in warning]
    assert provider.asked == [["one", "two"]]


def test_who_cannot_be_probed_is_said_and_asked_again(repository: Path) -> None:
    provider = Probing({"one": machine("0-3"), "two": "Node two cannot be reached: connection refused"})
    with opened(repository, provider) as workspace:
        (warning,) = [each for each in workspace.plan().warnings if "probed" in each]
    assert warning == (
        "two could not be probed, hardware unknown, nothing is placed there: "
        "Node two cannot be reached: connection refused"
    )
    provider.world.down["two"] = "connection refused"
    with opened(repository, provider) as workspace:
        (warning,) = [each for each in workspace.plan().warnings if "probed" in each]
    assert warning.endswith("nothing is placed there: out of reach"), "why is said once, of the node"
    assert provider.asked == [["one", "two"], ["two"]]


def test_probed_anew_when_asked_and_remembered_when_that_fails(repository: Path) -> None:
    provider = Probing({"one": machine("0-3"), "two": machine("0-7")})
    with opened(repository, provider) as workspace:
        workspace.plan()
    provider.machines = {"one": machine("0-15"), "two": "no answer within 10 s"}
    with opened(repository, provider) as workspace:
        assert workspace.hardware()["one"] == machine("0-3")
        found = workspace.find_hardware(reprobe=True)
        assert found.hardware == {"one": machine("0-15"), "two": machine("0-7")}
        (warning,) = [each for each in workspace.plan().warnings if "probed" in each]
        assert warning == "two could not be probed, planned as last seen: no answer within 10 s"
    with opened(repository, provider) as workspace:
        assert workspace.hardware(offline=True)["one"] == machine("0-15")
    assert provider.asked == [["one", "two"], ["one", "two"]]


def test_nothing_is_probed_offline(repository: Path) -> None:
    provider = Probing({"one": machine("0-3"), "two": machine("0-7")})
    with opened(repository, provider) as workspace:
        assert workspace.hardware(offline=True) == {}
        assert any("hardware unknown" in warning for warning in workspace.plan(offline=True).warnings)
    assert provider.asked == []


def test_a_store_that_cannot_be_written_does_not_stop_a_plan(repository: Path) -> None:
    (repository / ".bai").write_text("in the way")
    provider = Probing({"one": machine("0-3"), "two": machine("0-7")})
    with opened(repository, provider) as workspace:
        assert workspace.find_hardware().hardware["one"] == machine("0-3")


# documents and machines that change


def moved(repository: Path, address: str) -> None:
    path = repository / "all.yaml"
    text = path.read_text()
    assert "10.0.0.1" in text
    path.write_text(text.replace("10.0.0.1", address))


def test_another_address_is_another_machine(repository: Path) -> None:
    provider = Probing({"one": machine("0-3"), "two": machine("0-7")})
    with opened(repository, provider) as workspace:
        workspace.apply(workspace.plan(), holder="t")
        moved(repository, "10.0.0.9")
        provider.machines = {"one": machine("0-15"), "two": machine("0-31")}
        again = workspace.reloaded()
        again.provider = provider
        assert again.hardware() == {"one": machine("0-15"), "two": machine("0-7")}
        again.apply(again.plan(), holder="t")
    with opened(repository, provider) as workspace:
        assert workspace.hardware()["one"] == machine("0-15")
    assert provider.asked == [["one", "two"], ["one"]]


def test_another_label_is_the_same_machine(repository: Path) -> None:
    provider = Probing({"one": machine("0-3"), "two": machine("0-7")})
    with opened(repository, provider) as workspace:
        workspace.apply(workspace.plan(), holder="t")
    moved(repository, "10.0.0.1, labels: {rack: r1}")
    with opened(repository, provider) as workspace:
        workspace.apply(workspace.plan(), holder="t")
    assert provider.asked == [["one", "two"]]


def looped(repository: Path, provider: Probing) -> Loop:
    workspace = opened(repository, provider)
    return Loop(workspace, LoopOptions("loop", 30.0), log=lambda line: None)


def test_a_loop_asks_again_who_could_not_be_probed(repository: Path) -> None:
    provider = Probing({"one": machine("0-3"), "two": "no answer"})
    loop = looped(repository, provider)
    loop.once()
    provider.machines = {"one": machine("0-3"), "two": machine("0-7")}
    loop.once()
    loop.once()
    assert provider.asked == [["one", "two"], ["two"]]
    assert loop.workspace.hardware()["two"] == machine("0-7")
    loop.workspace.close()


def test_a_loop_goes_by_what_somebody_else_probed(repository: Path) -> None:
    """As with `bai nodes probe`, also while a pass is under way."""
    provider = Probing({"one": machine("0-3"), "two": machine("0-7")})
    loop = looped(repository, provider)
    loop.once()
    with opened(repository, provider) as other:
        other.record_hardware({"one": machine("0-15")})
        loop.workspace.refresh(holder="loop")
        assert other.store.hardware("here")["one"].hardware == dumped(machine("0-15"))
        loop.once()
        assert loop.workspace.hardware() == {"one": machine("0-15"), "two": machine("0-7")}
        assert other.store.hardware("here")["one"].hardware == dumped(machine("0-15"))
    assert provider.asked == [["one", "two"]]
    loop.workspace.close()


def dumped(hardware: Hardware) -> str:
    return hardware.model_dump_json(by_alias=True, exclude_defaults=True)
