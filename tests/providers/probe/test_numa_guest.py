"""The probe inside virtual machines whose NUMA layout was given on the command line: what went in must come
out.
"""

from __future__ import annotations

import os

import pytest

from providers.probe import parse, zipapp
from schemas.hardware.model import Hardware
from tests.lab import nvml
from tests.lab.fixtures import Boot
from tests.lab.guest import Guest
from tests.lab.numa import Machine

pytestmark = [pytest.mark.vm, pytest.mark.slow, pytest.mark.xdist_group("vm")]

SIZES = [int(size) for size in os.environ.get("BAI_LAB_NUMA", "8").split(",")]


@pytest.fixture(params=SIZES, scope="module")
def guest(request: pytest.FixtureRequest, vm: Boot) -> Guest:
    found = vm(numa=request.param)
    found.put_bytes(zipapp.build(), "/probe.pyz")
    return found


@pytest.fixture(scope="module")
def found(guest: Guest) -> Hardware:
    """The probe's answer with a GPU driver stand-in that drives each node's display-class device."""
    facts = {
        node: {
            "uuid": f"GPU-{node}",
            "name": "stand-in",
            "memory": 1 << 30,
            "pci": f"00000000:{display(guest.machine, node)[5:]}",
        }
        for node in range(guest.machine.nodes)
    }
    guest.put(nvml.library() / "libnvidia-ml.so.1", "/lib")
    guest.put_bytes(
        nvml.lines({"driver": "1.0", "cuda": 12000, "count": len(facts), "gpu": facts}).encode(), "/facts"
    )
    code, output = guest.run(
        ["python3", "/probe.pyz"], env={"LD_LIBRARY_PATH": "/lib", "FAKE_NVML": "/facts"}
    )
    assert code == 0, output
    return parse(output)


def display(machine: Machine, node: int) -> str:
    """The address of a node's display-class device: the first bus behind its host bridge."""
    return f"0000:{machine.bus(node) + 1:02x}:00.0"


def test_cpus_siblings_memory_and_distances(guest: Guest, found: Hardware) -> None:
    machine = guest.machine
    nodes = range(machine.nodes)
    assert [node.id for node in found.numa_nodes] == list(nodes)
    for node in found.numa_nodes:
        assert list(node.cpus) == machine.cpus(node.id)
        assert node.distances == {
            other: machine.distance(node.id, other) for other in nodes if other != node.id
        }
        given = machine.memory_mb(node.id) << 20
        assert given // 2 < node.memory <= given, "the kernel keeps a part for itself"
    assert [list(core) for core in found.siblings] == [machine.cpus(node) for node in nodes]
    assert (found.offline_cpus, found.isolated_cpus) == ((), ())


def test_drives_and_gpus_are_near_the_node_they_were_plugged_into(guest: Guest, found: Hardware) -> None:
    machine = guest.machine
    assert {(gpu.pci, gpu.numa_node) for gpu in found.gpus} == {
        (display(machine, node), node) for node in range(machine.nodes)
    }
    drives = {(f"0000:{machine.bus(node) + 2:02x}:00.0", node) for node in range(machine.nodes)}
    assert {(disk.pci, disk.numa_node) for disk in found.disks} == drives
    assert {disk.size for disk in found.disks} == {machine.disk_mb << 20}
    for gpu in found.gpus:
        assert len(gpu.pcie_path) == 1, "one root port"
    assert {link.kind for link in found.links} == {"SYS"}
    assert found.unknown == ()


def test_a_cpu_that_goes_offline_is_reported_so(guest: Guest, found: Hardware) -> None:
    last = guest.machine.cpus(guest.machine.nodes - 1)[-1]
    switch = f"/sys/devices/system/cpu/cpu{last}/online"
    try:
        assert guest.run(["sh", "-c", f"echo 0 > {switch}"])[0] == 0
        now = parse(guest.run(["python3", "/probe.pyz"])[1])
    finally:
        guest.run(["sh", "-c", f"echo 1 > {switch}"])
    assert now.offline_cpus == (last,)
    assert last not in now.numa_nodes[-1].cpus
    assert len(now.siblings) == len(found.siblings) - 1


def test_a_process_in_a_cpuset_is_offered_only_what_it_may_use(guest: Guest) -> None:
    script = (
        "mkdir -p /sys/fs/cgroup/probe && cd /sys/fs/cgroup/probe"
        " && echo 0-1 > cpuset.cpus && echo 0 > cpuset.mems"
        " && echo $$ > cgroup.procs && exec python3 /probe.pyz"
    )
    code, output = guest.run(["sh", "-c", script])
    guest.run(["rmdir", "/sys/fs/cgroup/probe"])
    assert code == 0, output
    limited = parse(output)
    assert [cpu for node in limited.numa_nodes for cpu in node.cpus] == [0, 1]
    assert [bool(node.memory) for node in limited.numa_nodes] == [
        node == 0 for node in range(guest.machine.nodes)
    ]
    assert any("this process may not use them" in fact for fact in limited.unknown)
