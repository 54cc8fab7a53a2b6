"""Writes a machine's /sys and /proc below a folder, as the kernel lays them out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class Sysfs:
    """Builder: every method adds one thing and gives its folder below `root`."""

    def __init__(self, root: Path, *, cpus: str = "0-3") -> None:
        self.root = root
        self.write("sys/devices/system/cpu/online", cpus)
        self.write("sys/devices/system/cpu/present", cpus)
        self.write("proc/meminfo", "MemTotal:        8388608 kB")
        self.write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel")

    def write(self, path: str, content: object) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
        return file

    def link(self, path: str, target: Path) -> None:
        """A relative link, as sysfs has them."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(target, place.parent))

    def core(self, *threads: int) -> None:
        for cpu in threads:
            listed = ",".join(map(str, threads))
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", listed)

    def node(self, node: int, cpus: str, gib: int, distances: str) -> str:
        folder = f"sys/devices/system/node/node{node}"
        self.write(f"{folder}/cpulist", cpus)
        self.write(f"{folder}/meminfo", f"Node {node} MemTotal:       {gib << 20} kB")
        self.write(f"{folder}/distance", distances)
        return folder

    def pci(
        self, path: str, *, kind: int, vendor: int, device: int = 0x1234, numa: int = -1, driver: str = ""
    ) -> Path:
        """`path`: `pci0000:00/0000:00:01.0/0000:01:00.0`, outermost first; bridges on the way are added when
        they are new.
        """
        parts = path.split("/")
        for depth in range(2, len(parts) + 1):
            whole = "sys/devices/" + "/".join(parts[:depth])
            if (self.root / whole).exists():
                continue
            last = depth == len(parts)
            self.write(f"{whole}/class", f"{(kind if last else 0x0604) << 8:#08x}")
            self.write(f"{whole}/vendor", f"{vendor if last else 0x8086:#06x}")
            self.write(f"{whole}/device", f"{device:#06x}")
            self.write(f"{whole}/numa_node", numa)
            self.link(f"sys/bus/pci/devices/{parts[depth - 1]}", self.root / whole)
        folder = self.root / "sys/devices" / path
        if driver:
            (self.root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
            (folder / "driver").symlink_to(
                os.path.relpath(self.root / f"sys/bus/pci/drivers/{driver}", folder)
            )
        return folder

    def nvme(self, function: Path, name: str, sectors: int) -> None:
        place = function.relative_to(self.root)
        self.write(f"{place}/nvme/{name}/{name}n1/size", sectors)
        self.link(f"sys/class/nvme/{name}", self.root / place / "nvme" / name)

    def rdma(
        self,
        function: Path,
        name: str,
        interface: str,
        *,
        layer: str = "InfiniBand",
        rate: str = "400 Gb/sec (4X NDR)",
        states: Sequence[str] = ("4: ACTIVE",),
    ) -> None:
        place = function.relative_to(self.root) / "infiniband" / name
        for port, state in enumerate(states, start=1):
            self.write(f"{place}/ports/{port}/link_layer", layer)
            self.write(f"{place}/ports/{port}/rate", rate if "ACTIVE" in state else "10 Gb/sec (4X SDR)")
            self.write(f"{place}/ports/{port}/state", state)
        (function / "net" / interface).mkdir(parents=True)
        (self.root / place / "device").symlink_to(os.path.relpath(function, self.root / place))
        self.link(f"sys/class/infiniband/{name}", self.root / place)
