"""A machine with several NUMA nodes, as QEMU arguments and as what a probe inside should find."""

from __future__ import annotations

from typing import NamedTuple

THREADS = 2
NODE_MEMORY_MB = 128
FIRST_BUS = 16
BUS_STEP = 16


class Machine(NamedTuple):
    """Every node has one core of two threads per `cores`, memory, and a PCI host bridge with a display-class
    device and an NVMe drive,
    each behind a root port of its own."""

    nodes: int
    cores: int = 1
    disk_mb: int = 64

    def cpus(self, node: int) -> list[int]:
        """Logical CPUs of a node."""
        width = self.cores * THREADS
        return list(range(node * width, (node + 1) * width))

    def distance(self, a: int, b: int) -> int:
        """10 to itself, 12 inside a half of the machine, else 20 and more: no two rows are the same."""
        if a == b:
            return 10
        same_half = a * 2 // self.nodes == b * 2 // self.nodes
        return 12 if same_half else 20 + abs(a - b)

    def memory_mb(self, node: int) -> int:
        """Different for every node, so that a mix-up shows."""
        return NODE_MEMORY_MB + 16 * node

    def bus(self, node: int) -> int:
        """The PCI bus number of a node's host bridge."""
        return FIRST_BUS + BUS_STEP * node

    def arguments(self, disk: str) -> list[str]:
        """QEMU arguments; `disk` is an empty file of `disk_mb` that all drives show read-only copies of."""
        total = sum(self.memory_mb(node) for node in range(self.nodes))
        width = self.cores * THREADS
        given = [
            "-machine",
            "q35",
            "-m",
            f"{total}M",
            "-smp",
            f"{width * self.nodes},sockets={self.nodes},cores={self.cores},threads={THREADS}",
        ]
        for node in range(self.nodes):
            given += self._node(node, disk)
        for a in range(self.nodes):
            for b in range(self.nodes):
                given += ["-numa", f"dist,src={a},dst={b},val={self.distance(a, b)}"]
        return given

    def _node(self, node: int, disk: str) -> list[str]:
        cpus = self.cpus(node)
        return [
            "-object",
            f"memory-backend-ram,id=ram{node},size={self.memory_mb(node)}M",
            "-numa",
            f"node,nodeid={node},memdev=ram{node},cpus={cpus[0]}-{cpus[-1]}",
            "-device",
            f"pxb-pcie,id=host{node},bus=pcie.0,bus_nr={self.bus(node)},numa_node={node}",
            "-device",
            f"pcie-root-port,id=port{node}a,bus=host{node},chassis={2 * node + 1},slot=0",
            "-device",
            f"pcie-root-port,id=port{node}b,bus=host{node},chassis={2 * node + 2},slot=1",
            "-device",
            f"bochs-display,bus=port{node}a",
            "-drive",
            f"if=none,id=disk{node},file={disk},format=raw,readonly=on",
        ]

    def drives(self) -> list[dict[str, str]]:
        """NVMe drives, as QMP's `device_add` takes them: QEMU saves no machine that has one."""
        return [
            {
                "driver": "nvme",
                "id": f"nvme{node}",
                "serial": f"node{node}",
                "drive": f"disk{node}",
                "bus": f"port{node}b",
            }
            for node in range(self.nodes)
        ]
