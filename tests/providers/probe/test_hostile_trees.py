"""Whatever stands in /sys: an answer that fits the model, or "not a machine"; never a traceback."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.hardware.model import Hardware
from schemas.hardware.sysfs.machine import NoMachineTree, describe_machine
from schemas.hardware.sysfs.tree import MemoryTree

FILES = {
    "/sys/devices/system/cpu/online": "0-3",
    "/sys/devices/system/cpu/present": "0-3",
    "/sys/devices/system/cpu/isolated": "1",
    "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0,2",
    "/sys/devices/system/node/node0/cpulist": "0-1",
    "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 5 kB",
    "/sys/devices/system/node/node0/distance": "10 20",
    "/sys/devices/system/node/node1/cpulist": "",
    "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 5 kB",
    "/sys/devices/system/node/node1/distance": "20 10",
    "/sys/devices/pci0000:00/0000:00:01.0/class": "0x060400",
    "/sys/devices/pci0000:00/0000:00:01.0/numa_node": "1",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/class": "0x010802",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/vendor": "0x10de",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/numa_node": "0",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1/size": "64",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_0/ports/1/rate": "100 Gb/sec",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_0/ports/1/link_layer": "Ethernet",
    "/sys/bus/dax/devices/dax0/target_node": "1",
    "/proc/driver/nvidia/gpus/x/numa_status": "Node: 1",
    "/sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 4\nlocation_id 256\ndomain 0",
    "/proc/meminfo": "MemTotal: 9 kB",
}
DEVICE = "../../../devices/pci0000:00/0000:00:01.0"
LINKS = {
    "/sys/bus/pci/devices/0000:00:01.0": DEVICE,
    "/sys/bus/pci/devices/0000:01:00.0": DEVICE + "/0000:01:00.0",
    "/sys/class/nvme/nvme0": "../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0",
    "/sys/class/infiniband/mlx5_0": "../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_0",
    "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_0/device": "../..",
}
VALUES = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.integers(0, 300).map("0-{}".format),
    st.sampled_from(
        [
            "",
            "-1",
            "0x0302",
            "0-",
            "0-65535",
            "0-70000",
            "10 10 10",
            "MemTotal: 99999999999999999999 kB",
            "nan",
            "ff,ff",
            "9" * 5000,
        ]
    ),
)


def test_the_sample_itself_is_read() -> None:
    found = Hardware.model_validate(describe_machine(MemoryTree(FILES, LINKS)))
    assert [node.id for node in found.numa_nodes] == [0, 1]
    assert [disk.size for disk in found.disks] == [64 * 512]
    assert [nic.speed_mbps for nic in found.nics] == [100_000]
    assert [gpu.slot for gpu in found.gpus] == ["rocm"]


@settings(max_examples=200, deadline=None)
@given(
    changes=st.dictionaries(st.sampled_from(sorted(FILES)), st.none() | VALUES, max_size=6),
    moved=st.dictionaries(
        st.sampled_from(sorted(LINKS)), st.sampled_from(["", ".", "..", "/", "/sys", "x", DEVICE]), max_size=2
    ),
)
def test_any_content_gives_an_answer_of_the_model_or_none(
    changes: dict[str, str | None], moved: dict[str, str]
) -> None:
    files = {path: text for path, text in (FILES | changes).items() if text is not None}
    with contextlib.suppress(NoMachineTree):
        Hardware.model_validate(describe_machine(MemoryTree(files, LINKS | moved)))
