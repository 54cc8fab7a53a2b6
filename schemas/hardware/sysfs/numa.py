"""NUMA nodes: CPUs, memory, distances, and what a node without CPUs is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from schemas.hardware.cpulist import format_cpus
from schemas.hardware.sysfs.cpu import CPU
from schemas.hardware.sysfs.tree import (
    Tree,
    numbered_entries,
    read_cpus,
    read_integer,
    read_natural,
    read_text,
)

NODE = "/sys/devices/system/node"
DAX = "/sys/bus/dax/devices"
NVIDIA_GPUS = "/proc/driver/nvidia/gpus"
_FASTER = 1.5


class NumaFacts(NamedTuple):
    id: int
    cpus: tuple[int, ...]
    memory: int
    kind: str
    distances: dict[int, int]
    hugepages: Mapping[str, int] = {}

    def as_dict(self) -> dict[str, object]:
        """The node in the shape of `schemas.hardware.model.NumaNode`."""
        distances = {str(other): distance for other, distance in sorted(self.distances.items())}
        return {
            "id": self.id,
            "cpus": format_cpus(self.cpus),
            "memory": self.memory,
            "kind": self.kind,
            "distances": distances,
            **({"hugepages": dict(self.hugepages)} if self.hugepages else {}),
        }


def numa_nodes(tree: Tree, online: tuple[int, ...], unknown: list[str]) -> list[NumaFacts]:
    """All online nodes; a kernel without NUMA support has one, node 0."""
    ids = numbered_entries(tree, NODE, "node")
    if not ids:
        memory, pages = (
            parse_memory_total(tree.read("/proc/meminfo")),
            _read_hugepages(tree, "/sys/kernel/mm"),
        )
        return [NumaFacts(0, online, memory or 0, "dram", {}, pages)]
    whole = parse_memory_total(tree.read("/proc/meminfo")) if len(ids) == 1 else None
    gpu_nodes, dax = _gpu_nodes(tree), _dax_nodes(tree)
    listed = {node: _listed_cpus(tree, node) for node in ids}
    owned = _owned_cpus(tree, listed, online, unknown)
    found = []
    for node in sorted(owned):
        folder = f"{NODE}/node{node}"
        # A guest that was given memory later counts it for the machine, not for the node.
        memory = (whole if node in listed else None) or parse_memory_total(tree.read(folder + "/meminfo"))
        if memory is None:
            unknown.append(f"memory of NUMA node {node}")
        kind = "gpu" if node in gpu_nodes else dax.get(node, "dram")
        distances, pages = _read_distances(tree, node, ids), _read_hugepages(tree, folder)
        found.append(NumaFacts(node, owned[node], memory or 0, kind, distances, pages))
    if len(found) > 1 and not any(node.distances for node in found):
        unknown.append("NUMA distances")
    cpuless = {node for node in ids if not listed[node]}
    return [_classify_by_bandwidth(tree, node, cpuless, unknown) for node in found]


def _listed_cpus(tree: Tree, node: int) -> tuple[int, ...]:
    return read_cpus(tree, f"{NODE}/node{node}/cpulist", f"{NODE}/node{node}/cpumap") or ()


def _owned_cpus(
    tree: Tree, listed: dict[int, tuple[int, ...]], online: tuple[int, ...], unknown: list[str]
) -> dict[int, tuple[int, ...]]:
    """The online CPUs of each node, each of one. What several nodes list is of the one that lists fewest:
    nodes of slower memory list the CPUs of all that are near. What none lists is of the node that the CPU
    itself names, which may be offline."""
    here = set(online)
    taken: set[int] = set()
    doubled: set[int] = set()
    owned: dict[int, set[int]] = {}
    for node in sorted(listed, key=lambda one: (len(here.intersection(listed[one])), one)):
        own = here.intersection(listed[node])
        owned[node] = own - taken
        doubled |= own & taken
        taken |= own
    if doubled:
        nodes = format_cpus(node for node, cpus in listed.items() if not doubled.isdisjoint(cpus))
        unknown.append(
            f"NUMA node of CPUs {format_cpus(doubled)}: nodes {nodes} list them, "
            "taken as of the one that lists fewest"
        )
    homeless = []
    for cpu in sorted(here - taken):
        named = numbered_entries(tree, f"{CPU}/cpu{cpu}", "node")
        if len(named) == 1:
            owned.setdefault(named[0], set()).add(cpu)
        else:
            homeless.append(cpu)
    if homeless:
        unknown.append(f"NUMA node of CPUs {format_cpus(homeless)}: online, but of no node")
    return {node: tuple(sorted(cpus)) for node, cpus in owned.items()}


def parse_memory_total(meminfo: str | None) -> int | None:
    """Bytes of the `MemTotal:` line of a meminfo file."""
    found = re.search(r"MemTotal:\s+([0-9]{1,12})\s*kB", meminfo or "")
    return int(found.group(1)) * 1024 if found else None


def _read_hugepages(tree: Tree, folder: str) -> dict[str, int]:
    """Bytes by size of the pages that are set aside; those beyond (surplus) come and go with their use."""
    found = {}
    for name, kib in (("2Mi", 2048), ("1Gi", 1048576)):
        pages = f"{folder}/hugepages/hugepages-{kib}kB"
        count = read_natural(tree, f"{pages}/nr_hugepages") or 0
        own = count - (read_natural(tree, f"{pages}/surplus_hugepages") or 0)
        if own > 0:
            found[name] = own * kib * 1024
    return found


def _read_distances(tree: Tree, node: int, ids: list[int]) -> dict[int, int]:
    row = (read_text(tree, f"{NODE}/node{node}/distance") or "").split()
    if len(row) != len(ids) or not all(re.fullmatch("[0-9]{1,5}", value) for value in row):
        return {}
    return {other: int(value) for other, value in zip(ids, row) if other != node}


def _gpu_nodes(tree: Tree) -> set[int]:
    """Nodes that are a GPU's own memory (POWER9, Grace Hopper, Grace Blackwell)."""
    nodes = set()
    for gpu in tree.names(NVIDIA_GPUS):
        status = tree.read(f"{NVIDIA_GPUS}/{gpu}/numa_status") or ""
        found = re.search(r"^Node:\s*([0-9]{1,5})\b", status, re.MULTILINE)
        if found:
            nodes.add(int(found.group(1)))
    return nodes


def _dax_nodes(tree: Tree) -> dict[int, str]:
    """Memory that was turned into a NUMA node by dax/kmem: the device's place tells CXL from other memory."""
    kinds = {}
    for name in tree.names(DAX):
        node = read_integer(tree, f"{DAX}/{name}/target_node")
        place = tree.real(f"{DAX}/{name}")
        if node is not None and re.search(r"/(cxl|region\d|decoder\d)", place):
            kinds[node] = "cxl"
    return kinds


def _classify_by_bandwidth(tree: Tree, node: NumaFacts, cpuless: set[int], unknown: list[str]) -> NumaFacts:
    """A node without CPUs whose memory is clearly faster than its CPUs' own is HBM (the bandwidths are the
    firmware's HMAT).
    """
    if node.id not in cpuless or node.kind != "dram" or not node.memory:
        return node
    mine = _read_bandwidth(tree, node.id)
    theirs = [
        _read_bandwidth(tree, initiator)
        for initiator in _read_initiators(tree, node.id)
        if initiator not in cpuless
    ]
    known = [value for value in theirs if value]
    if mine and known and mine > _FASTER * max(known):
        return node._replace(kind="hbm")
    unknown.append(f"what kind of memory NUMA node {node.id} (without CPUs) is")
    return node


def _read_bandwidth(tree: Tree, node: int) -> int | None:
    return read_integer(tree, f"{NODE}/node{node}/access0/initiators/read_bandwidth")


def _read_initiators(tree: Tree, node: int) -> list[int]:
    return numbered_entries(tree, f"{NODE}/node{node}/access0/initiators", "node")
