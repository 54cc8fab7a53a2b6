"""What labels and NodeResourceTopology objects tell of nodes, and what is believed of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.discovery.features import KEYS
from providers.kubernetes.discovery.zones import PATH, add_zones, with_zones
from providers.kubernetes.observe.devices import DeviceIndex, devices_of
from providers.kubernetes.observe.hardware import hardware_of
from providers.kubernetes.observe.nodes import parse_node
from schemas.hardware.completion import UNKNOWN_MEMORY
from schemas.hardware.model import UNKNOWN_CORES, Hardware
from tests.lab.kubernetes import cpus
from tests.providers.kubernetes.api_server import Answer, Request, listed, serving, status
from tests.providers.kubernetes.specs import gpu, node, resource_slice

GIB = 1 << 30
NFD = "feature.node.kubernetes.io/"
GPU_LABELS = {
    "nvidia.com/cuda.driver-version.full": "570.86.15",
    "nvidia.com/cuda.driver.major": "1",
    "nvidia.com/cuda.runtime-version.full": "12.8",
}


def hardware(labels: dict[str, str] | None = None, *slices: dict[str, Any]) -> Hardware:
    made = node()
    made["metadata"]["labels"] = labels or {}
    return hardware_of(parse_node(made, KEYS), DeviceIndex(devices_of(slices)))


def with_cores() -> Hardware:
    """Eight CPUs of two NUMA nodes, each published."""
    return hardware({}, resource_slice(*cpus.devices(range(8)), driver="dra.cpu"))


def zone(number: int, cpu: str = "4", memory: str = "32Gi", **fields: Any) -> dict[str, Any]:
    costs = [{"name": f"node-{other}", "value": 10 if other == number else 21} for other in (0, 1)]
    amounts = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": "4"}
    resources = [{"name": name, "capacity": each, "allocatable": each, "available": each}
                 for name, each in amounts.items()]  # fmt: skip
    return {"name": f"node-{number}", "type": "Node", "costs": costs, "resources": resources, **fields}


def topology(*zones: Any, name: str = "n0") -> dict[str, Any]:
    return {"metadata": {"name": name}, "zones": list(zones)}


def test_versions_of_the_driver_are_read_from_labels() -> None:
    found = hardware(GPU_LABELS).software
    assert (found.nvidia_driver, found.cuda) == ("570.86.15", "12.8")
    older = {f"nvidia.com/cuda.{name}": value for name, value in {
        "driver.major": "535", "driver.minor": "104", "driver.rev": "05",
        "runtime.major": "12", "runtime.minor": "2",
    }.items()}  # fmt: skip
    found = hardware(older).software
    assert (found.nvidia_driver, found.cuda) == ("535.104.05", "12.2")


def test_a_driver_counts_before_a_label() -> None:
    versions = {"driverVersion": {"version": "580.95.5"}, "cudaDriverVersion": {"version": "13.0.0"}}
    one = gpu(1)
    one["attributes"] = {**one["attributes"], **versions}
    found = hardware(GPU_LABELS, resource_slice(one)).software
    assert (found.nvidia_driver, found.cuda) == ("580.95.5", "13.0")


@pytest.mark.parametrize(
    "value", ["", "yes", "1" * 63, "570.86.15-rc1", "٥٧٠", "1.2.3.4.5", "\x1b[2J", "570\n"]
)
def test_a_label_that_is_no_version_is_none(value: str) -> None:
    found = hardware(dict.fromkeys(GPU_LABELS, value))
    assert found.software.nvidia_driver is None and found.software.cuda is None
    assert found == hardware(), "and nothing else is different for it"


def test_labels_say_what_is_not_known() -> None:
    labels = dict.fromkeys(
        (f"{NFD}memory-numa", f"{NFD}cpu-hardware_multithreading", f"{NFD}rdma.capable"), "true"
    )
    found = hardware(labels).unknown
    assert UNKNOWN_CORES in found
    for begins in ("how many NUMA nodes", "how many threads", "RDMA NICs: there are some"):
        assert any(each.startswith(begins) for each in found)
    assert hardware(dict.fromkeys(labels, "false")) == hardware()
    known = hardware(labels, resource_slice(*cpus.devices(range(8)), driver="dra.cpu"))
    assert not any(each.startswith("how many") for each in known.unknown), "the driver has told"


def test_others_labels_of_nodes_are_not_kept() -> None:
    made = node()
    made["metadata"]["labels"] = {f"{NFD}cpu-cpuid.AVX512F": "true", f"{NFD}memory-numa": "true"}
    assert parse_node(made, KEYS).labels == {f"{NFD}memory-numa": "true"}


def test_zones_tell_memory_and_distances_where_cpus_are_published() -> None:
    found = with_zones(with_cores(), topology(zone(0, memory="48Gi"), zone(1, memory="16Gi")))
    assert [each.memory for each in found.numa_nodes] == [48 * GIB, 16 * GIB]
    assert [dict(each.distances) for each in found.numa_nodes] == [{0: 10, 1: 21}, {0: 21, 1: 10}]
    assert UNKNOWN_MEMORY not in found.unknown


@pytest.mark.parametrize(
    "zones",
    [
        (),
        (zone(0),),
        (zone(0), zone(1), zone(2)),
        (zone(0, cpu="5"), zone(1, cpu="3")),
        (zone(0, name="socket-0"), zone(1)),
        (zone(0, type="Socket"), zone(1)),
        (zone(0, resources=7), zone(1)),
        (zone(0, resources=[7]), zone(1)),
        (zone(0, costs={"a": 1}), zone(1)),
        (7, 8),
        [zone(0)] * 100_000,
        (zone(0, cpu="9" * 25), zone(1)),
        (zone(10**9), zone(1)),
    ],
)
def test_zones_of_another_machine_are_of_no_use(zones: Any) -> None:
    before = with_cores()
    assert with_zones(before, topology(*zones)) == before


def test_amounts_and_costs_that_cannot_be_do_no_harm() -> None:
    costs = [{"name": "node-1", "value": value} for value in (-1, 10**9, "far", None)]
    found = with_zones(with_cores(), topology(zone(0, memory="9" * 25, costs=costs), zone(1, memory="-1")))
    assert sum(each.memory for each in found.numa_nodes) <= 64 * GIB
    assert found.numa_nodes[0].distances == {}


class Asked:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.queries: list[Any] = []

    def __call__(self, request: Request) -> Answer:
        assert request.path == PATH
        self.queries.append(request.query.get("fieldSelector"))
        return self.answer


def added(folder: Path, asked: Asked, *names: str) -> dict[str, Hardware]:
    with serving(folder, asked) as server:
        client = server.client()
        try:
            return add_zones(
                client, {name: with_cores() if name != "plain" else hardware() for name in names}
            )
        finally:
            client.close()


def test_zones_are_asked_for_once_and_only_where_they_are_of_use(tmp_path: Path) -> None:
    told = listed(
        7, {}, topology(zone(0), zone(1), name="n1"), topology("broken", name="n2"), {"metadata": 5}
    )
    found = added(tmp_path, asked := Asked(told), "n0", "n1", "n2", "plain")
    assert asked.queries == [None]
    assert [UNKNOWN_MEMORY in found[name].unknown for name in ("n0", "n1", "n2")] == [True, False, True]
    added(tmp_path, one := Asked(told), "n1", "plain")
    assert one.queries == ["metadata.name=n1"]
    added(tmp_path, none := Asked(told), "plain")
    assert none.queries == [], "where nobody publishes CPUs, nobody is asked"


@pytest.mark.parametrize("answer", [status(404, "no", "NotFound"), status(403, "no", "Forbidden"), (200, {})])
def test_without_zones_what_they_tell_is_unknown(tmp_path: Path, answer: Answer) -> None:
    found = added(tmp_path, Asked(answer), "n0")
    assert found == {"n0": with_cores()}
