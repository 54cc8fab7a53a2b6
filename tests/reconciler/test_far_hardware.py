"""Hardware of nodes that are far away: probed once, remembered, probed again when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from providers.fake import FakeProvider
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.observe.hardware import complete_probed
from reconciler.plan.place.snapshot import node_infos
from reconciler.workspace.workspace import Workspace
from schemas.hardware.model import UNKNOWN_CORES, Hardware
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


class Told(Probing):
    """As of Kubernetes: what nodes are is told by others, until somebody has them looked at."""

    def probe(
        self, nodes: frozenset[str], image: str = ""
    ) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        return self.hardware(nodes)


def gpus(*ids: str, path: bool = False, **fields: Any) -> Hardware:
    found = [
        {"id": each, "index": at, **({"pciePath": [f"0000:0{at // 2}:01.0", "0000:10:00.0"]} if path else {})}
        for at, each in enumerate(ids)
    ]
    numa = [{"id": 0, "cpus": "0-3", "memory": 32 << 30}]
    return Hardware.model_validate({"numaNodes": numa, "gpus": found, "unknown": [UNKNOWN_CORES], **fields})


def test_a_document_completes_what_the_cluster_tells(repository: Path) -> None:
    declared = gpus("GPU-a", "GPU-b", path=True, unknown=[])
    (repository / "one.json").write_text(declared.model_dump_json(by_alias=True, exclude_defaults=True))
    documents = (repository / "all.yaml").read_text()
    named = documents.replace("address: 10.0.0.1,", "address: 10.0.0.1, hardwareFrom: one.json,")
    (repository / "all.yaml").write_text(named)
    provider = Told({"one": gpus("GPU-a"), "two": gpus()})
    for _ in range(2):
        with opened(repository, provider) as workspace:
            known = workspace.find_hardware()
            assert [each.id for each in known.hardware["one"].gpus] == ["GPU-a", "GPU-b"]
            assert known.hardware["one"].gpus[0].pcie_path == ("0000:00:01.0", "0000:10:00.0")
            assert not known.hardware["one"].knows_cores, "nobody gives them one by one"
            assert set(known.remote) <= {"two"}, "nothing of it is remembered: it is made anew"
    assert provider.asked == [["one"], ["two"], ["one"]]
    plain = Probing({"one": gpus("GPU-z"), "two": gpus()})
    with opened(repository, plain) as workspace:
        assert "one" not in workspace.find_hardware().hardware, "elsewhere a document is all that counts"
    provider.machines = {**provider.machines, "one": "the API server: connection refused"}
    with opened(repository, provider) as workspace:
        found = node_infos(workspace.desired(), workspace.actual())[0]["one"].hardware
        assert [each.id for each in found.gpus] == ["GPU-a", "GPU-b"], (
            "as declared, where nobody can say more"
        )


def test_a_document_that_contradicts_the_cluster_is_told_with_the_plan(repository: Path) -> None:
    documents = (repository / "all.yaml").read_text()
    hardware = "hardware: {numaNodes: [{id: 0, cpus: 0-7, memory: 8GiB}]}, "
    (repository / "all.yaml").write_text(
        documents.replace("address: 10.0.0.1,", f"address: 10.0.0.1, {hardware}")
    )
    provider = Told({"one": gpus(), "two": gpus()})
    with opened(repository, provider) as workspace:
        plan = workspace.plan()
        actual = workspace.actual()
    doubt = "the document of one says that it has 8 CPUs, and it has 4: what is seen counts"
    assert [each for each in plan.warnings if "document" in each] == [doubt]
    assert node_infos(workspace.desired(), actual)[0]["one"].hardware.numa_nodes == gpus().numa_nodes


def test_what_a_probe_found_stays_when_the_cluster_is_asked_again(repository: Path) -> None:
    provider = Told({"one": gpus("GPU-a", "GPU-b"), "two": gpus()})
    with opened(repository, provider) as workspace:
        workspace.find_hardware()
        looked = gpus("GPU-a", "GPU-b", path=True, unknown=[])
        workspace.record_hardware(complete_probed(provider, {"one": looked}))
    provider.machines = {"one": gpus("GPU-b", "GPU-c"), "two": gpus()}
    with opened(repository, provider) as workspace:
        kept = workspace.find_hardware().hardware["one"]
        assert all(each.pcie_path for each in kept.gpus) and not kept.knows_cores
        found = workspace.find_hardware(reprobe=True).hardware["one"]
        assert [(each.id, bool(each.pcie_path)) for each in found.gpus] == [("GPU-b", True), ("GPU-c", False)]
