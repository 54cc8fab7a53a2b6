"""hwloc's XML (`lstopo --of xml`), versions 1.x, 2.x and 3.0: cores, NUMA nodes of every kind, PCI tree,
NVLinks."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree.ElementTree import Element

from schemas.hardware.cpulist import MAX_CPU, format_cpus
from schemas.hardware.importers.facts import Facts, UnreadableCapture
from schemas.hardware.importers.hwloc_cpuset import parse_cpuset
from schemas.hardware.importers.hwloc_devices import add_devices
from schemas.hardware.importers.hwloc_distances import add_distances
from schemas.hardware.importers.safe_xml import parse_number, parse_xml

_KINDS = {"HBM": "hbm", "MCDRAM": "hbm", "CXL-DRAM": "cxl", "CXL": "cxl", "GPUMemory": "gpu", "DRAM": "dram"}
_NODE_TYPES = ("NUMANode", "Node")


class _MemoryNode(NamedTuple):
    number: int
    near: frozenset[int]
    subtype: str
    memory: int | None


def read_hwloc(data: bytes) -> Facts:
    """Raises UnreadableCapture."""
    root = parse_xml(data)
    machine = root.find("object")
    if machine is None or machine.get("type") not in ("Machine", "System"):
        raise UnreadableCapture("an hwloc topology without a Machine")
    facts = Facts("hwloc XML", all_nodes=True)
    everything = [element for element in machine.iter("object")]
    processors = tuple(sorted(_os_index(element) for element in everything if element.get("type") == "PU"))
    if not processors:
        raise UnreadableCapture("an hwloc topology without processing units")
    online = parse_cpuset(machine.get("online_cpuset"), processors) or processors
    usable = frozenset(online).intersection(processors)
    if not usable:
        raise UnreadableCapture("an hwloc topology of which no processing unit is online")
    _add_nodes(facts, machine, everything, usable)
    cores = (
        parse_cpuset(element.get("cpuset"), processors)
        for element in everything
        if element.get("type") == "Core"
    )
    of_nodes = {cpu for node in facts.nodes.values() for cpu in node.cpus or ()}
    facts.siblings = tuple(
        sorted(core for core in (tuple(sorted(of_nodes & set(core))) for core in cores) if len(core) > 1)
    )
    complete = parse_cpuset(machine.get("complete_cpuset"), processors)
    facts.offline = tuple(cpu for cpu in complete if cpu not in usable and cpu not in set(online))
    withheld = set(online) - usable
    if withheld:
        facts.notes.append(f"CPUs {format_cpus(withheld)}: online, but hwloc was not shown them")
    if facts.offline:
        doubtful = format_cpus(facts.offline)
        facts.notes.append(f"whether CPUs {doubtful} are offline, or were withheld from who ran hwloc")
    _add_infos(facts, [*machine.findall("info"), *root.findall("info")])
    add_distances(
        facts, root, [_os_index(element) for element in everything if element.get("type") in _NODE_TYPES]
    )
    add_devices(facts, root, machine, {number_: node.cpus or () for number_, node in facts.nodes.items()})
    return facts


def _os_index(element: Element) -> int:
    found = parse_number(element.get("os_index", "0"))
    if found is None or found > MAX_CPU:
        raise UnreadableCapture(
            f"{element.get('os_index')!r} is not a number of a {element.get('type')} up to {MAX_CPU}"
        )
    return found


def _add_nodes(facts: Facts, machine: Element, everything: list[Element], usable: frozenset[int]) -> None:
    """Each CPU is of one node: nodes of ordinary memory before HBM and the like, then the one with fewest
    CPUs near."""
    nodes = []
    for element in everything:
        if element.get("type") in _NODE_TYPES:
            near = frozenset(parse_cpuset(element.get("cpuset"), tuple(usable))) & usable
            subtype = element.get("subtype") or ""
            nodes.append(
                _MemoryNode(_os_index(element), near, subtype, parse_number(element.get("local_memory")))
            )
    if not nodes:
        nodes = [_MemoryNode(0, usable, "", parse_number(machine.get("local_memory")))]
        facts.notes.append("NUMA nodes: hwloc shows none, all is taken as one")
    by_preference = sorted(
        nodes,
        key=lambda n: (_KINDS.get(n.subtype, "dram") != "dram" or n.subtype == "SPM", len(n.near), n.number),
    )
    taken: set[int] = set()
    for node in by_preference:
        found = facts.node(node.number)
        found.cpus = tuple(sorted(node.near - taken))
        taken |= node.near
        found.memory, found.kind = node.memory, _KINDS.get(node.subtype)
        if not found.cpus and node.near and found.kind is None:
            facts.notes.append(f"what kind of memory NUMA node {node.number} (without CPUs) is")
    homeless = usable - taken
    if homeless == usable:
        raise UnreadableCapture("no processing unit is near a NUMA node")
    if homeless:
        facts.notes.append(f"NUMA node of CPUs {format_cpus(homeless)}: hwloc shows them online, of no node")


def _add_infos(facts: Facts, infos: list[Element]) -> None:
    told = {info.get("name"): info.get("value") for info in infos}
    facts.hostname, facts.architecture = told.get("HostName"), told.get("Architecture")
    facts.software = {
        "kernel": told.get("OSRelease") if re.match(r"\d+\.\d+", told.get("OSRelease") or "") else None
    }
