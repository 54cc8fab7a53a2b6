"""One machine type as the planner sees it: NUMA domains, cores with their threads, memory, and the devices of
every slot.

A domain is a NUMA node that can hold a session: one with CPUs or with ordinary memory. High-bandwidth, CXL
and GPU memory nodes are
none. Domains are numbered from 0 in the order of their NUMA ids; `Topology.domains` maps back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from planner.model import links
from planner.model.device_family import DeviceFamily, DeviceLinks, bits
from planner.model.huge_pages import pages_of
from schemas.hardware.model import Gpu, Hardware, NumaNode
from schemas.values.once_per_value import once_per_value


class DomainSet(NamedTuple):
    """A set of NUMA domains; `distance` is the sum of NUMA distances over its pairs."""

    distance: int
    members: tuple[int, ...]


_MOST_MASKS = 4096
"""Sets of cores whose CPUs are remembered: a topology lasts as long as its hardware is described."""


class Topology:
    """What all nodes with the same hardware share, tables included."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        nodes = [
            node for node in sorted(hardware.numa_nodes, key=lambda node: node.id) if _holds_sessions(node)
        ]
        self.nodes: tuple[NumaNode, ...] = tuple(nodes) or hardware.numa_nodes[:1]
        self.domains = tuple(node.id for node in self.nodes)
        own = [node if node.kind == "dram" or node.cpus else None for node in self.nodes]
        self.memory = tuple(max(0, node.memory - sum(node.hugepages.values())) if node else 0 for node in own)
        """Without what is set aside as huge pages: nothing else is made of these."""
        self.pages = pages_of(own)
        """Bytes of huge pages per domain, of each size that there is any of."""
        self.cores = self._cores()
        self.core_masks = self._core_masks()
        self.families = self._families()
        self.by_slot = {family.slot: at for at, family in enumerate(self.families)}
        self._subsets: dict[int, list[DomainSet]] = {}
        self._cpus: dict[int, tuple[int, ...]] = {}

    @property
    def has_devices(self) -> bool:
        return bool(self.families)

    @cached_property
    def usable_cores(self) -> int:
        """Mask of the cores that sessions may get at all: none of its threads is isolated."""
        isolated = set(self.hardware.isolated_cpus)
        return sum(1 << at for at, core in enumerate(self.cores) if not isolated.intersection(core))

    def cpus(self, cores: int) -> tuple[int, ...]:
        """Logical CPUs, ascending, of a mask of cores."""
        found = self._cpus.get(cores)
        if found is None:
            found = tuple(sorted(cpu for at in bits(cores) for cpu in self.cores[at]))
            if len(self._cpus) >= _MOST_MASKS:
                self._cpus.clear()
            self._cpus[cores] = found
        return found

    @cached_property
    def core_of(self) -> dict[int, int]:
        """Logical CPU → core number."""
        return {cpu: at for at, core in enumerate(self.cores) for cpu in core}

    def distance(self, a: int, b: int) -> int:
        """NUMA distance between two domains; 20 where the source does not know, 10 to itself."""
        if a == b:
            return 10
        known = self.nodes[a].distances.get(self.domains[b])
        back = self.nodes[b].distances.get(self.domains[a])
        return max(known if known is not None else 0, back if back is not None else 0) or 20

    def subsets(self, size: int) -> list[DomainSet]:
        """Every set of `size` domains, nearest first."""
        if size not in self._subsets:
            sets = itertools.combinations(range(len(self.domains)), size)
            self._subsets[size] = sorted(DomainSet(self._total_distance(one), one) for one in sets)
        return self._subsets[size]

    def nearest_nics(self, slot: str, mask: int) -> tuple[str, ...]:
        """RDMA NICs next to these devices of a slot, each once, in device order."""
        table = self._nics.get(slot, ())
        return tuple(dict.fromkeys(name for at in bits(mask) if at < len(table) for name in table[at]))

    def local_nics(self, domains: Sequence[int]) -> tuple[str, ...]:
        """RDMA NICs on these NUMA domains, or all where none is."""
        ids = {self.domains[domain] for domain in domains}
        rdma = [nic for nic in self.hardware.nics if nic.rdma]
        return tuple(nic.id for nic in rdma if nic.numa_node in ids) or tuple(nic.id for nic in rdma)

    def _total_distance(self, domains: Sequence[int]) -> int:
        return sum(self.distance(a, b) for a, b in itertools.combinations(domains, 2))

    def _cores(self) -> tuple[tuple[int, ...], ...]:
        """Threads of each core, in the order of NUMA domain and first thread; offline CPUs are no threads."""
        offline = set(self.hardware.offline_cpus)
        core_of = {cpu: tuple(sorted(core)) for core in self.hardware.siblings for cpu in core}
        cores: list[tuple[int, ...]] = []
        for node in self.nodes:
            online = [cpu for cpu in node.cpus if cpu not in offline]
            here = set(online)
            seen = dict.fromkeys(tuple(t for t in core_of.get(cpu, (cpu,)) if t in here) for cpu in online)
            cores.extend(seen)
        return tuple(cores)

    def _core_masks(self) -> tuple[int, ...]:
        masks = []
        for node in self.nodes:
            here = set(node.cpus)
            masks.append(sum(1 << at for at, core in enumerate(self.cores) if core and core[0] in here))
        return tuple(masks)

    def _families(self) -> tuple[DeviceFamily, ...]:
        by_slot: dict[str, list[tuple[str, Gpu]]] = {}
        for gpu in self.hardware.gpus:
            if gpu.mig == "enabled" or gpu.mig_devices:
                for instance in gpu.mig_devices:
                    by_slot.setdefault(f"{gpu.slot}.mig.{instance.profile}", []).append((instance.id, gpu))
            else:
                by_slot.setdefault(f"{gpu.slot}.device", []).append((gpu.id, gpu))
        return tuple(self._family(slot, units) for slot, units in sorted(by_slot.items()))

    def _family(self, slot: str, units: list[tuple[str, Gpu]]) -> DeviceFamily:
        gpus = [gpu for _, gpu in units]
        domains = tuple(self._domain(gpu) for gpu in gpus)
        nics = links.nic_costs(self.hardware, gpus)
        if ".mig." in slot:  # instances of one GPU are a group; no links between instances
            first = {gpu.id: at for at, gpu in reversed(list(enumerate(gpus)))}
            costs = [[0] * len(gpus)] * len(gpus)
            groups = [first[gpu.id] for gpu in gpus]
        else:
            costs = links.pair_costs(self.hardware, gpus)
            groups = links.switch_groups(gpus, costs)
        linked = DeviceLinks(costs, groups, nics, links.nic_rails(self.hardware, gpus))
        return DeviceFamily(slot, tuple(name for name, _ in units), domains, linked)

    def _domain(self, gpu: Gpu) -> int:
        """Index of the GPU's domain; where its node holds no CPUs (GB200), the nearest that does; -1
        unknown.
        """
        if len(self.domains) == 1:
            return 0
        if gpu.numa_node in self.domains:
            return self.domains.index(gpu.numa_node)
        node = next((one for one in self.hardware.numa_nodes if one.id == gpu.numa_node), None)
        known = (
            [(node.distances[one], at) for at, one in enumerate(self.domains) if one in node.distances]
            if node
            else []
        )
        return min(known)[1] if known else -1

    @cached_property
    def _nics(self) -> dict[str, list[tuple[str, ...]]]:
        by_id = {gpu.id: gpu for gpu in self.hardware.gpus}
        by_id.update({one.id: gpu for gpu in self.hardware.gpus for one in gpu.mig_devices})
        return {
            family.slot: links.nearest_nics(self.hardware, [by_id[name] for name in family.ids])
            for family in self.families
        }


class TopologyCache:
    """One `Topology` per distinct hardware: by identity first, then by content."""

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[Hardware, Topology]] = {}
        self._by_content: dict[str, Topology] = {}

    def of(self, hardware: Hardware) -> Topology:
        found = self._by_identity.get(id(hardware))
        if found is None:
            content = _content(hardware)
            topology = self._by_content.get(content) or _topology(hardware)
            self._by_content[content] = topology
            found = self._by_identity[id(hardware)] = (hardware, topology)
        return found[1]


@once_per_value
def _content(hardware: Hardware) -> str:
    """What two machines that are alike have in common."""
    return hardware.model_dump_json(exclude={"hostname", "software", "disks"})


@once_per_value
def _topology(hardware: Hardware) -> Topology:
    return Topology(hardware)


def _holds_sessions(node: NumaNode) -> bool:
    return bool(node.cpus) or (node.kind == "dram" and node.memory > 0)
