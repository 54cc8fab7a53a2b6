"""What the probe makes of /sys and /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.probe import probe_local
from schemas.hardware.model import Hardware
from schemas.problems.errors.repository import CannotRead
from tests.lab.sysfs import Sysfs

GPU, NIC, NVME, SWITCH = 0x0302, 0x0200, 0x0108, 0x0680
NVIDIA, MELLANOX, AMD = 0x10DE, 0x15B3, 0x1002


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


def two_nodes(sysfs: Sysfs) -> None:
    sysfs.node(0, "0-1", 64, "10 21")
    sysfs.node(1, "2-3", 32, "21 10")


def links(found: Hardware) -> dict[tuple[str, str], str]:
    return {(link.a, link.b): link.kind for link in found.links}


def test_a_kernel_without_numa_has_one_node_with_everything(sysfs: Sysfs) -> None:
    found = probe_local(sysfs.root)
    (node,) = found.numa_nodes
    assert (node.id, node.cpus, node.memory, node.distances) == (0, (0, 1, 2, 3), 8 << 30, {})


def test_what_is_set_aside_as_huge_pages(sysfs: Sysfs) -> None:
    """What is lent beyond that (surplus) comes and goes."""
    pages = "hugepages/hugepages-{}kB/{}_hugepages"
    sysfs.write("sys/kernel/mm/" + pages.format(2048, "nr"), 3)
    (only,) = probe_local(sysfs.root).numa_nodes
    assert only.hugepages == {"2Mi": 6 << 20} and only.memory == 8 << 30
    two_nodes(sysfs)
    for size, which, count in ((2048, "nr", 512), (2048, "surplus", 2), (1048576, "nr", 4)):
        sysfs.write("sys/devices/system/node/node1/" + pages.format(size, which), count)
    sysfs.write("sys/devices/system/node/node0/" + pages.format(2048, "nr"), 0)
    first, second = probe_local(sysfs.root).numa_nodes
    assert first.hugepages == {} and second.hugepages == {"2Mi": 510 * (2 << 20), "1Gi": 4 << 30}


def test_nodes_have_their_cpus_memory_and_distances(sysfs: Sysfs) -> None:
    two_nodes(sysfs)
    first, second = probe_local(sysfs.root).numa_nodes
    assert (first.cpus, first.memory, first.distances) == ((0, 1), 64 << 30, {1: 21})
    assert (second.cpus, second.memory, second.distances) == ((2, 3), 32 << 30, {0: 21})


def test_distances_follow_node_numbers_with_gaps(sysfs: Sysfs) -> None:
    sysfs.node(0, "0-1", 64, "10 40")
    sysfs.node(8, "2-3", 64, "40 10")
    assert [node.distances for node in probe_local(sysfs.root).numa_nodes] == [{8: 40}, {0: 40}]


def test_offline_isolated_and_sibling_cpus(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path, cpus="0-7")
    sysfs.write("sys/devices/system/cpu/online", "0-5,7")
    sysfs.write("sys/devices/system/cpu/isolated", "4-6")
    for core in ((0, 4), (1, 5), (2, 6), (3, 7)):
        sysfs.core(*core)
    found = probe_local(tmp_path)
    assert found.offline_cpus == (6,)
    assert found.isolated_cpus == (4, 5)
    assert found.siblings == ((0, 4), (1, 5), (3, 7)), "a core whose other thread is offline has one thread"
    assert found.numa_nodes[0].cpus == (0, 1, 2, 3, 4, 5, 7)


def test_memory_only_nodes_are_told_apart(sysfs: Sysfs) -> None:
    sysfs.node(0, "0-3", 64, "10 13 20 80 14")
    fast = sysfs.node(1, "", 16, "13 10 30 80 30")
    sysfs.node(2, "", 128, "20 30 10 80 30")
    sysfs.node(3, "", 80, "80 80 80 10 80")
    sysfs.node(4, "", 8, "14 30 30 80 10")
    sysfs.write("sys/devices/system/node/node0/access0/initiators/read_bandwidth", 100_000)
    sysfs.write(f"{fast}/access0/initiators/read_bandwidth", 400_000)
    sysfs.link(f"{fast}/access0/initiators/node0", sysfs.root / "sys/devices/system/node/node0")
    (sysfs.root / "sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0").mkdir(
        parents=True
    )
    sysfs.write("sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0/target_node", 2)
    sysfs.link(
        "sys/bus/dax/devices/dax0.0",
        sysfs.root / "sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0",
    )
    sysfs.write("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:      3\nStatus:    online")
    found = probe_local(sysfs.root)
    assert [node.kind for node in found.numa_nodes] == ["dram", "hbm", "cxl", "gpu", "dram"]
    assert found.unknown == ("what kind of memory NUMA node 4 (without CPUs) is",)


def test_devices_are_found_with_their_place(sysfs: Sysfs) -> None:
    two_nodes(sysfs)
    drive = sysfs.pci("pci0000:80/0000:80:01.0/0000:81:00.0", kind=NVME, vendor=0x144D, numa=1, driver="nvme")
    sysfs.nvme(drive, "nvme0", 7_501_476_528)
    nic = sysfs.pci(
        "pci0000:00/0000:00:01.0/0000:01:00.0", kind=NIC, vendor=MELLANOX, numa=0, driver="mlx5_core"
    )
    sysfs.rdma(nic, "mlx5_0", "ibp1s0", states=("1: DOWN", "4: ACTIVE"))
    found = probe_local(sysfs.root)
    (disk,), (card,) = found.disks, found.nics
    assert (disk.id, disk.pci, disk.numa_node, disk.size) == ("nvme0", "0000:81:00.0", 1, 7_501_476_528 * 512)
    assert (card.id, card.interface, card.numa_node) == ("mlx5_0", "ibp1s0", 0)
    assert (card.link_layer, card.speed_mbps) == ("infiniband", 400_000), (
        "the port that is up speaks for the card"
    )
    assert card.pcie_path == ("0000:00:01.0",)


def test_virtual_functions_and_software_rdma_are_not_hardware(sysfs: Sysfs) -> None:
    physical = sysfs.pci("pci0000:00/0000:00:01.0/0000:01:00.0", kind=NIC, vendor=MELLANOX)
    sysfs.rdma(physical, "mlx5_0", "eth0", layer="Ethernet")
    virtual = sysfs.pci("pci0000:00/0000:00:01.0/0000:01:00.1", kind=NIC, vendor=MELLANOX)
    (virtual / "physfn").symlink_to("../0000:01:00.0")
    sysfs.rdma(virtual, "mlx5_1", "eth1")
    sysfs.write("sys/devices/virtual/infiniband/rxe0/ports/1/link_layer", "Ethernet")
    sysfs.link("sys/class/infiniband/rxe0", sysfs.root / "sys/devices/virtual/infiniband/rxe0")
    (card,) = probe_local(sysfs.root).nics
    assert (card.id, card.link_layer) == ("mlx5_0", "ethernet")


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", "PIX"),
        ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/0000:05:00.0/0000:06:00.0", "PXB"),
        ("pci0000:00/0000:00:02.0/0000:07:00.0", "PHB"),
        ("pci0000:40/0000:40:01.0/0000:41:00.0", "NODE"),
        ("pci0000:80/0000:80:01.0/0000:81:00.0", "SYS"),
    ],
)
def test_the_way_between_two_devices_is_classified_as_nvidia_smi_does(
    sysfs: Sysfs, other: str, kind: str
) -> None:
    two_nodes(sysfs)
    here = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"
    sysfs.rdma(sysfs.pci(here, kind=NIC, vendor=MELLANOX, numa=0), "mlx5_0", "ib0")
    node = 1 if other.startswith("pci0000:80") else 0
    sysfs.rdma(sysfs.pci(other, kind=NIC, vendor=MELLANOX, numa=node), "mlx5_1", "ib1")
    assert links(probe_local(sysfs.root)) == {("mlx5_0", "mlx5_1"): kind}


def test_a_device_without_a_node_takes_its_bridges_and_else_says_so(sysfs: Sysfs) -> None:
    two_nodes(sysfs)
    sysfs.pci("pci0000:00/0000:00:01.0", kind=0x0604, vendor=0x8086, numa=1)
    inherits = sysfs.pci("pci0000:00/0000:00:01.0/0000:01:00.0", kind=NIC, vendor=MELLANOX)
    homeless = sysfs.pci("pci0000:80/0000:80:01.0/0000:81:00.0", kind=NIC, vendor=MELLANOX)
    sysfs.rdma(inherits, "mlx5_0", "ib0")
    sysfs.rdma(homeless, "mlx5_1", "ib1")
    found = probe_local(sysfs.root)
    assert [nic.numa_node for nic in found.nics] == [1, None]
    assert found.unknown == ("NUMA node of mlx5_1",)
    assert found.links == (), "neither near nor far is known"


def test_on_one_node_everything_is_near_it(sysfs: Sysfs) -> None:
    sysfs.node(0, "0-3", 8, "10")
    sysfs.rdma(sysfs.pci("pci0000:00/0000:00:01.0/0000:01:00.0", kind=NIC, vendor=MELLANOX), "mlx5_0", "ib0")
    assert probe_local(sysfs.root).nics[0].numa_node == 0


def test_nvidia_gpus_without_a_driver_are_named_but_not_offered(sysfs: Sysfs) -> None:
    sysfs.pci("pci0000:00/0000:00:01.0/0000:01:00.0", kind=GPU, vendor=NVIDIA)
    sysfs.pci("pci0000:00/0000:00:02.0/0000:02:00.0", kind=GPU, vendor=NVIDIA, driver="vfio-pci")
    sysfs.pci("pci0000:00/0000:00:03.0/0000:03:00.0", kind=SWITCH, vendor=NVIDIA)
    sysfs.pci("pci0000:00/0000:00:04.0", kind=0x0300, vendor=0x1A03)
    found = probe_local(sysfs.root)
    assert found.gpus == ()
    assert found.nv_switches == 1
    assert found.unknown == (
        "NVIDIA GPU at 0000:01:00.0: no driver is loaded for it",
        "NVIDIA GPU at 0000:02:00.0: the vfio-pci driver does not offer it",
    )


def test_amd_gpus_come_from_the_compute_driver_with_their_xgmi_links(sysfs: Sysfs) -> None:
    two_nodes(sysfs)
    for node, (bus, numa) in enumerate(((0x01, 0), (0x81, 1)), start=1):
        folder = sysfs.pci(
            f"pci0000:{bus - 1:02x}/0000:{bus - 1:02x}:01.0/0000:{bus:02x}:00.0",
            kind=0x0380,
            vendor=AMD,
            numa=numa,
            driver="amdgpu",
        ).relative_to(sysfs.root)
        sysfs.write(f"{folder}/unique_id", f"{node:016x}")
        sysfs.write(f"{folder}/mem_info_vram_total", 64 << 30)
        facts = f"simd_count 440\nlocation_id {bus << 8}\ndomain 0"
        sysfs.write(f"sys/class/kfd/kfd/topology/nodes/{node}/properties", facts)
        sysfs.write(
            f"sys/class/kfd/kfd/topology/nodes/{node}/io_links/0/properties",
            f"type 11\nnode_from {node}\nnode_to {3 - node}",
        )
    sysfs.write("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 4\nsimd_count 0")
    found = probe_local(sysfs.root)
    assert [(gpu.slot, gpu.vendor, gpu.numa_node, gpu.memory) for gpu in found.gpus] == [
        ("rocm", "amd", 0, 64 << 30),
        ("rocm", "amd", 1, 64 << 30),
    ]
    assert list(links(found).values()) == ["XGMI"]


def test_versions_are_read(sysfs: Sysfs) -> None:
    sysfs.write("sys/module/mlx5_core/version", "24.04-0.6.6")
    sysfs.write("sys/module/nvidia/version", "550.163.01")
    sysfs.write("proc/sys/kernel/osrelease", "6.1.0-56-amd64")
    sysfs.write("proc/sys/kernel/hostname", "gpu-017")
    sysfs.write("etc/os-release", 'NAME=Debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"')
    found = probe_local(sysfs.root)
    assert (found.hostname, found.architecture) == ("gpu-017", "x86_64")
    assert found.software.model_dump(exclude_none=True) == {
        "kernel": "6.1.0-56-amd64",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "nvidia_driver": "550.163.01",
        "mlnx_ofed": "24.04-0.6.6",
    }


def test_an_empty_folder_is_not_a_machine(tmp_path: Path) -> None:
    with pytest.raises(CannotRead, match="no CPU is listed"):
        probe_local(tmp_path)


def test_links_never_lead_out_of_the_root(sysfs: Sysfs) -> None:
    secret = sysfs.root.parent / f"{sysfs.root.name}-hostname"
    secret.write_text("outside")
    (sysfs.root / "etc").mkdir()
    (sysfs.root / "etc/hostname").symlink_to(secret)
    try:
        assert probe_local(sysfs.root).hostname is None
    finally:
        secret.unlink()
