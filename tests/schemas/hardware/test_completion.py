"""One machine of two sources: what is seen counts, what was told fills the rest."""

from __future__ import annotations

from typing import Any

import pytest

from planner.model.links import nic_costs, pair_costs
from schemas.hardware.completion import (
    UNKNOWN_LINKS,
    UNKNOWN_MEMORY,
    complete,
    contradictions,
    describe,
)
from schemas.hardware.model import UNKNOWN_CORES, Hardware
from schemas.rules.machine_rules import hardware_rules

GIB = 1 << 30
NUMA: list[dict[str, Any]] = [
    {"id": 0, "cpus": "0-3", "memory": 48 * GIB, "distances": {"0": 10, "1": 21},
     "hugepages": {"2Mi": 2 * GIB}},
    {"id": 1, "cpus": "4-7", "memory": 16 * GIB, "distances": {"0": 21, "1": 10}},
]  # fmt: skip
SOURCE = "its document"


def gpu(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"GPU-{number}", "index": number, "pci": f"0000:{number:02x}:00.0", "model": "H100",
            "memory": 80 * GIB, **fields}  # fmt: skip


def located(number: int, **fields: Any) -> dict[str, Any]:
    """As a pod sees it: by its place alone."""
    where = f"0000:{number:02x}:00.0"
    switch = f"0000:{0x80 + number // 2:02x}:00.0"
    return {"id": where, "index": number, "pci": where, "numaNode": number // 2 % 2,
            "pciePath": [f"0000:{0x40 + number // 2:02x}:01.0", switch], **fields}  # fmt: skip


def seen(*gpus: dict[str, Any], cores: bool = False, **fields: Any) -> Hardware:
    """As the cluster tells of it."""
    whole = [{"id": 0, "cpus": "0-7", "memory": 64 * GIB, "hugepages": {"2Mi": 2 * GIB}}]
    halves = [
        {"id": 0, "cpus": "0-3", "memory": 32 * GIB, "hugepages": {"2Mi": GIB}},
        {"id": 1, "cpus": "4-7", "memory": 32 * GIB, "hugepages": {"2Mi": GIB}},
    ]
    unknown = [UNKNOWN_MEMORY if cores else UNKNOWN_CORES, *([UNKNOWN_LINKS] if gpus else [])]
    return Hardware.model_validate(
        {"numaNodes": halves if cores else whole, "gpus": gpus, "unknown": unknown, **fields}
    )


def told(**fields: Any) -> Hardware:
    return Hardware.model_validate({"numaNodes": NUMA, **fields})


def test_memory_of_numa_nodes_is_known_where_their_cpus_are_published() -> None:
    found = complete(seen(cores=True), told(), SOURCE)
    assert [each.model_dump() for each in found.numa_nodes] == [
        each.model_dump() for each in told().numa_nodes
    ]
    assert found.unknown == ()


def test_it_stays_the_memory_that_the_machine_has() -> None:
    less = [{**each, "memory": each["memory"] // 4} for each in NUMA]
    found = complete(seen(cores=True), told(numaNodes=less), SOURCE)
    assert [each.memory for each in found.numa_nodes] == [48 * GIB, 16 * GIB], "only how it is spread"


def test_huge_pages_are_only_spread_where_there_are_as_many() -> None:
    more = [{**NUMA[0], "hugepages": {"2Mi": 4 * GIB, "1Gi": GIB}}, NUMA[1]]
    found = complete(seen(cores=True), told(numaNodes=more), SOURCE)
    assert [each.hugepages for each in found.numa_nodes] == [{"2Mi": GIB}, {"2Mi": GIB}]


def test_memory_without_cpus_is_a_numa_node_of_its_own() -> None:
    cxl = {"id": 2, "memory": 64 * GIB, "kind": "cxl"}
    machine = seen(cores=True)
    whole = [{**each.model_dump(by_alias=True), "memory": 64 * GIB} for each in machine.numa_nodes]
    found = complete(seen(cores=True, numaNodes=whole), told(numaNodes=[*NUMA, cxl]), SOURCE)
    assert [(each.id, each.kind, each.memory) for each in found.numa_nodes] == [
        (0, "dram", 48 * GIB), (1, "dram", 16 * GIB), (2, "cxl", 64 * GIB),
    ]  # fmt: skip


def test_cores_that_nobody_gives_one_by_one_stay_a_number() -> None:
    found = complete(seen(gpu(0), gpu(2)), told(gpus=[located(0), located(2)], isolatedCpus="7"), SOURCE)
    assert found.numa_nodes == seen().numa_nodes and found.siblings == ()
    assert not found.knows_cores and found.isolated_cpus == ()
    assert [each.numa_node for each in found.gpus] == [None, None], "there is no such NUMA node here"
    assert [*hardware_rules(found, ())] == []


def test_gpus_are_found_by_where_they_sit_and_are_as_near_as_they_were_told() -> None:
    four = [gpu(number) for number in range(4)]
    nic = {"id": "mlx5_0", "pci": "0000:20:00.0"}
    way = {**nic, "numaNode": 1, "pciePath": ["0000:41:01.0", "0000:81:00.0"]}
    machine = told(gpus=[located(number) for number in range(4)], nics=[way], unknown=[UNKNOWN_LINKS])
    found = complete(seen(*four, nics=[nic]), machine, SOURCE)
    costs = pair_costs(found, found.gpus)
    assert costs[0][1] == costs[2][3] < costs[0][2] == costs[1][3]
    assert nic_costs(found, found.gpus) == [4, 4, 0, 0]
    assert UNKNOWN_LINKS in found.unknown
    before = seen(*four, nics=[nic])
    assert len(set(map(tuple, pair_costs(before, before.gpus)))) == 4, "nobody knew"
    assert len({cost for row in pair_costs(before, before.gpus) for cost in row if cost}) == 1


def test_direct_links_are_those_of_the_document() -> None:
    links = [{"a": "GPU-0", "b": "GPU-2", "kind": "NV", "count": 4}]
    found = complete(
        seen(*(gpu(n) for n in range(4))), told(gpus=[gpu(n) for n in range(4)], links=links), SOURCE
    )
    costs = pair_costs(found, found.gpus)
    assert costs[0][2] == min(min(row) for row in costs) < 0
    assert UNKNOWN_LINKS not in found.unknown


def test_pairs_of_one_numa_node_are_near_where_that_is_all_that_is_known() -> None:
    flat = [located(number, pciePath=[]) for number in range(4)]
    found = complete(seen(*(gpu(number) for number in range(4))), told(gpus=flat), SOURCE)
    costs = pair_costs(found, found.gpus)
    assert costs[0][1] == costs[2][3] < costs[0][2]


def test_ways_of_different_sources_are_not_compared() -> None:
    """One that is published begins above the root port, as others do not."""
    published = [gpu(0, pciePath=["pci0000:40"]), gpu(1, pciePath=["pci0000:40"])]
    found = complete(seen(*published), told(gpus=[located(0)]), SOURCE)
    assert [each.pcie_path for each in found.gpus] == [("pci0000:40",)] * 2
    both = complete(seen(*published), told(gpus=[located(0), located(1)]), SOURCE)
    assert [len(each.pcie_path) for each in both.gpus] == [2, 2]


def test_nics_that_nobody_publishes_cannot_be_given() -> None:
    found = complete(seen(), told(nics=[{"id": "mlx5_0"}]), SOURCE)
    assert found.nics == ()


def test_gpus_of_a_document_stay_and_those_of_an_earlier_look_go() -> None:
    machine = told(gpus=[gpu(0), gpu(1), gpu(2)])
    assert [each.id for each in complete(seen(gpu(1)), machine, SOURCE).gpus] == ["GPU-1"]
    stay = complete(seen(gpu(1)), machine, SOURCE, declared=True).gpus
    assert {each.id for each in stay} == {"GPU-0", "GPU-1", "GPU-2"}
    assert [each.index for each in stay] == [0, 1, 2]
    counted = [{"id": f"n0:nvidia.com/gpu:{number}", "index": number} for number in range(3)]
    there = complete(seen(*counted), machine, SOURCE, declared=True).gpus
    assert [each.id for each in there] == [each["id"] for each in counted], (
        "they are the same, without a name"
    )
    assert [
        each.id for each in complete(seen(gpu(1)), told(gpus=[located(1)]), SOURCE, declared=True).gpus
    ] == ["GPU-1"], "what is known by its place alone is the same one"


def test_gpus_of_a_document_are_those_that_a_device_plugin_counts() -> None:
    counted = [{"id": f"n0:nvidia.com/gpu:{number}", "index": number} for number in range(2)]
    other = {"id": "card", "index": 2, "slot": "rocm"}
    found = complete(seen(*counted), told(gpus=[gpu(1), gpu(2), other]), SOURCE, declared=True)
    assert [each.id for each in found.gpus] == ["n0:nvidia.com/gpu:0", "n0:nvidia.com/gpu:1", "card"]


@pytest.mark.parametrize(
    ("fields", "doubt"),
    [
        ({"architecture": "aarch64"}, "that it is aarch64, and it is x86_64: nothing of it counts"),
        ({"numaNodes": [{"id": 0, "cpus": "0-15", "memory": GIB}]}, "that it has 16 CPUs, and it has 8"),
        (
            {"numaNodes": [{"id": 0, "cpus": "0-2"}, {"id": 1, "cpus": "3-7"}]},
            "that other CPUs are of its NUMA nodes than those that are published",
        ),
        (
            {"gpus": [gpu(0, pci="0000:07:00.0")]},
            "GPU-0 at 0000:07:00.0, which is at 0000:00:00.0",
        ),
    ],
)
def test_what_contradicts_is_left_out_and_said(fields: dict[str, Any], doubt: str) -> None:
    machine, before = told(**fields), seen(gpu(0), gpu(1), cores=True)
    assert contradictions(before, machine) == (doubt,)
    found = complete(before, machine, SOURCE)
    assert f"{SOURCE} says {doubt}" in found.unknown
    assert found.gpus == before.gpus
    if "numaNodes" in fields or "architecture" in fields:
        assert found.numa_nodes == before.numa_nodes and UNKNOWN_MEMORY in found.unknown
    again = complete(found, machine, SOURCE)
    assert contradictions(again, machine) == (doubt,), "also once it is completed"


def test_one_document_is_of_many_machines_of_one_make() -> None:
    """Its GPUs have other ids there, in the same places."""
    first = [
        gpu(number + 10, pci=gpu(number)["pci"], pciePath=located(number)["pciePath"]) for number in range(4)
    ]
    links = [{"a": "GPU-10", "b": "GPU-12", "kind": "NV", "count": 4}]
    here = seen(*(gpu(number) for number in range(4)))
    found = complete(here, told(gpus=first, links=links), SOURCE, declared=True)
    assert [each.id for each in found.gpus] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    assert all(each.pcie_path for each in found.gpus)
    assert ("GPU-0", "GPU-2", "NV") in [(each.a, each.b, each.kind) for each in found.links]
    assert contradictions(here, told(gpus=first)) == ()


def test_what_the_cluster_says_of_software_counts() -> None:
    software = {"kernel": "6.1", "nvidiaDriver": "570.1", "cuda": "12.8"}
    found = complete(seen(software={"kernel": "6.8", "os": "Debian"}), told(software=software), SOURCE)
    assert found.software.model_dump(exclude_none=True) == {
        "kernel": "6.8", "os": "Debian", "nvidia_driver": "570.1", "cuda": "12.8",
    }  # fmt: skip


def test_a_look_from_inside_is_described_whole() -> None:
    nic = {"id": "mlx5_0", "numaNode": 1}
    machine = told(
        hostname="bai-probe-1", gpus=[located(0), located(1), located(6)], nics=[nic],
        links=[{"a": "0000:00:00.0", "b": "mlx5_0", "kind": "SYS"}],
    )  # fmt: skip
    before = seen(gpu(0), gpu(1), hostname="n0")
    found = describe(before, machine)
    assert found.hostname == "n0" and found.numa_nodes == machine.numa_nodes
    assert [(each.id, each.model, each.numa_node) for each in found.gpus] == [
        ("GPU-0", "H100", 0), ("GPU-1", "H100", 0),
    ]  # fmt: skip
    assert [each.id for each in found.nics] == ["mlx5_0"]
    assert [(each.a, each.b) for each in found.links] == [("GPU-0", "mlx5_0")]
    assert found.unknown == ("GPUs at 0000:06:00.0: no driver publishes which ones", UNKNOWN_LINKS)
    assert [*hardware_rules(found, ())] == []
    assert complete(before, found, SOURCE) == complete(before, complete(before, found, SOURCE), SOURCE)
