"""cuFile's configuration: the addresses of the node's RDMA NICs, the near ones first, or no file at all."""

from __future__ import annotations

import json
from dataclasses import replace

from planner.environment.cufile_file import cufile_settings
from planner.model.types import DeviceGrant, KernelPlacement
from schemas.hardware.model import Hardware, Nic
from tests.planner.support import machine

NICS = (
    Nic(id="mlx5_0", numa_node=0, addresses=("10.0.0.1",)),
    Nic(id="mlx5_1", numa_node=1, addresses=("10.0.1.1", "fd00::1")),
    Nic(id="eth0", numa_node=1, rdma=False, addresses=("192.168.0.1",)),
)
FAR_GPU = KernelPlacement("main1", "n", (), 0, (1,), 0, (DeviceGrant("GPU-7", "cuda.device"),))


def addresses(place: KernelPlacement, hardware: Hardware) -> list[str]:
    text = cufile_settings(place, hardware)
    return list(json.loads(text)["properties"]["rdma_dev_addr_list"]) if text else []


def test_addresses_of_rdma_nics_the_near_ones_first() -> None:
    assert addresses(FAR_GPU, machine(nics=NICS)) == ["10.0.1.1", "fd00::1", "10.0.0.1"]


def test_no_file_without_addresses_gpus_or_the_nodes_network() -> None:
    assert not addresses(FAR_GPU, machine(nics=(Nic(id="mlx5_0"), NICS[2])))
    assert not addresses(replace(FAR_GPU, devices=()), machine(nics=NICS))
    assert not addresses(replace(FAR_GPU, network="bridge"), machine(nics=NICS))
    assert addresses(replace(FAR_GPU, network="host"), machine(nics=NICS))
