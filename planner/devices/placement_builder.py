"""A mapping in the words of the outside: CPU numbers, NUMA ids, device and NIC ids."""

from __future__ import annotations

from planner.devices.mapping import Mapper, Mapping, device_masks
from planner.model.device_family import bits
from planner.model.links import DIRECT, PCI
from planner.model.topology import Topology
from planner.model.types import DeviceGrant, KernelPlacement, NumaPart
from schemas.hardware.anonymous import is_anonymous


class PlacementBuilder:
    """Placements of one topology; what does not depend on the node's name is made once per mapping."""

    def __init__(self, mapper: Mapper) -> None:
        self._topology = mapper.topology
        self._known: dict[int, tuple[Mapping, KernelPlacement, str]] = {}

    def placement(self, name: str, node: str, mapping: Mapping, fabric: bool) -> KernelPlacement:
        """The mapping as the placement of kernel `name` on `node`; with `fabric` it gets the NICs next to
        it.
        """
        built = self._built(mapping)[1]
        return KernelPlacement(
            name,
            node,
            built.cpus,
            built.cpu_milli,
            built.memory_nodes,
            built.memory,
            built.devices,
            built.nics if fabric else (),
            built.parts,
            hugepages=built.hugepages,
        )

    def connection(self, mapping: Mapping) -> str:
        """How the mapping's devices are connected: direct links in all, and the worst PCI path between
        two.
        """
        return self._built(mapping)[2]

    def _built(self, mapping: Mapping) -> tuple[Mapping, KernelPlacement, str]:
        known = self._known.get(id(mapping))
        if known is None or known[0] is not mapping:
            if len(self._known) > 100_000:
                self._known.clear()
            built = _nameless_placement(self._topology, mapping)
            known = self._known[id(mapping)] = (mapping, built, _connection_text(self._topology, mapping))
        return known


def _nameless_placement(topology: Topology, mapping: Mapping) -> KernelPlacement:
    families, ids = topology.families, topology.domains
    grants = [
        DeviceGrant(families[f].ids[at], families[f].slot) for f, mask in mapping.whole for at in bits(mask)
    ]
    grants += [
        DeviceGrant(families[f].ids[at], _shares_slot(families[f].slot), milli)
        for f, at, milli in mapping.pieces
    ]
    parts = tuple(NumaPart(ids[at], milli, size) for at, milli, size in mapping.parts)
    with_memory = tuple(part.node for part in parts if part.memory)
    return KernelPlacement(
        kernel="",
        node="",
        cpus=topology.cpus(mapping.cores),
        cpu_milli=sum(part.cpu_milli for part in parts),
        memory_nodes=with_memory or _nearest_memory(topology, mapping),
        memory=sum(part.memory for part in parts),
        devices=tuple(grants),
        nics=_nearest_nics(topology, mapping),
        parts=parts,
        hugepages=mapping.pages,
    )


def _connection_text(topology: Topology, mapping: Mapping) -> str:
    """Nothing of devices that are known by number alone: which ones they are, somebody else chooses."""
    costs = [
        topology.families[f].costs[a][b]
        for f, mask in device_masks(mapping)
        if not is_anonymous(topology.families[f].ids[0])
        for a in bits(mask)
        for b in bits(mask)
        if a < b
    ]
    if not costs:
        return ""
    direct = sum(-cost // DIRECT for cost in costs if cost < 0)
    worst = max((cost, name) for name, cost in (("", 0), *PCI.items()) if cost in {0, *costs})[1]
    linked = f"{direct} direct links" if direct else ""
    return ", ".join(part for part in (linked, f"worst PCI path {worst}" if worst else "") if part)


def _shares_slot(slot: str) -> str:
    return slot.removesuffix(".device") + ".shares"


def _nearest_memory(topology: Topology, mapping: Mapping) -> tuple[int, ...]:
    """NUMA nodes whose memory a kernel without a memory request may use: its own, or the nearest that have
    any.
    """
    own = [at for at in mapping.domains if topology.memory[at]]
    if not own:
        start = mapping.domains[0]
        having = [at for at, size in enumerate(topology.memory) if size]
        own = sorted(having, key=lambda at: (topology.distance(start, at), at))[:1] or list(mapping.domains)
    return tuple(topology.domains[at] for at in own)


def _nearest_nics(topology: Topology, mapping: Mapping) -> tuple[str, ...]:
    near = [
        name
        for f, mask in device_masks(mapping)
        for name in topology.nearest_nics(topology.families[f].slot, mask)
    ]
    return tuple(dict.fromkeys(near)) or topology.local_nics(mapping.domains)
