"""Which kernels are told NCCL's topology, and of what."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import fromstring

import pytest

from planner.environment.nccl_topology_file import nccl_topology
from planner.model.types import DeviceGrant, KernelPlacement, Placement
from schemas.hardware.model import Gpu, Hardware, Nic, NumaNode


def path(at: int) -> tuple[str, ...]:
    """Two devices to a switch."""
    return ("0000:00:01.0", f"0000:1{at // 2}:00.0", f"0000:2{at // 2}:0{at % 2}.0")


GPUS = tuple(
    Gpu(id=f"GPU-{at}", index=at, pci=f"0000:3{at}:00.0", numa_node=0, pcie_path=path(at)) for at in range(4)
)
NIC = Nic(id="mlx5_0", pci="0000:40:00.0", numa_node=0, pcie_path=path(4))
MACHINE = Hardware(numa_nodes=(NumaNode(id=0, cpus=(0, 1)),), gpus=GPUS, nics=(NIC,))


def part(*gpus: str, milli: int = 1000, node: str = "n1", nics: tuple[str, ...] = ()) -> KernelPlacement:
    grants = tuple(DeviceGrant(gpu, "cuda.device", milli) for gpu in gpus)
    return KernelPlacement("main1", node, (), 1000, (0,), 1, grants, nics)


def told(kernel: KernelPlacement, *others: KernelPlacement, machine: Hardware = MACHINE) -> str:
    return nccl_topology(kernel, Placement("s", "g", (kernel, *others)), machine)


def test_two_gpus_are_described_without_the_others() -> None:
    tree = fromstring(told(part("GPU-1", "GPU-2")))
    assert tree.get("version") == "1"
    devices = [pci.get("busid") for pci in tree.iter("pci") if pci.find("gpu") is not None]
    assert devices == ["0000:31:00.0", "0000:32:00.0"]
    assert not list(tree.iter("net"))


def test_a_gang_over_nodes_is_told_of_its_nics() -> None:
    far = part("GPU-0", node="n2", nics=("mlx5_0",))
    tree = fromstring(told(part("GPU-0", nics=("mlx5_0",)), far))
    assert [net.get("name") for net in tree.iter("net")] == ["mlx5_0"]


@pytest.mark.parametrize(
    "kernel", [part(), part("GPU-0"), part("GPU-0", "GPU-1", milli=500), part("GPU-0", "GPU-9")]
)
def test_nobody_is_told_without_gpus_that_talk(kernel: KernelPlacement) -> None:
    assert told(kernel) == ""


@pytest.mark.parametrize("lack", [{"pci": None}, {"numa_node": None}, {"pcie_path": ()}, {"slot": "rocm"}])
def test_nobody_is_told_what_is_not_known(lack: dict[str, object]) -> None:
    unknown = GPUS[0].model_copy(update=lack)
    machine = MACHINE.model_copy(update={"gpus": (unknown, *GPUS[1:])})
    assert told(part("GPU-0", "GPU-1"), machine=machine) == ""
    assert told(part("GPU-2", "GPU-1"), machine=machine) or lack == {"slot": "rocm"}


def test_the_same_place_gives_the_same_text() -> None:
    kernel = part("GPU-2", "GPU-0")
    turned = replace(kernel, devices=kernel.devices[::-1])
    assert told(kernel) == told(turned) != ""
