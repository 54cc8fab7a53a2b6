"""One kernel onto one node, exactly: GPUs, cores and NUMA memory are chosen together.

`prefer-single-node`: among all sets of NUMA domains that can carry the request, the one with the fewest
domains, then the least total
distance, then the best connected devices, then (for sessions over several nodes) the nearest NICs, then
whatever leaves the largest
blocks for later requests. Because every resource adds up over domains, trying the sets in that order finds
the optimum.
`interleaving`: devices, cores and memory as evenly over the domains as what is free allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from planner.devices import amounts, fractional
from planner.model import slots
from planner.model.demand import Demand
from planner.model.device_family import bits
from planner.model.huge_pages import PageGrant, hold_pages
from planner.model.node_state import DomainRoom, ResourceState, domain_room
from planner.model.topology import Topology

_MEMO_LIMIT = 200_000


class Mapping(NamedTuple):
    """A kernel's place on a node. `parts`: (domain, milli-cores, bytes); `whole`: (family, mask)."""

    state: ResourceState
    """The node after the kernel is on it."""
    cores: int
    parts: tuple[tuple[int, int, int], ...]
    whole: tuple[tuple[int, int], ...]
    pieces: tuple[tuple[int, int, int], ...]
    """(family, device, milli)."""
    domains: tuple[int, ...]
    """Every NUMA domain it touches."""
    link: int
    """Sum of pair costs of its devices, see `planner.model.links`."""
    pages: tuple[PageGrant, ...] = ()


class _DeviceChoice(NamedTuple):
    rank: tuple[int, ...]
    whole: tuple[tuple[int, int], ...]
    pieces: tuple[tuple[int, int, int], ...]


def device_masks(devices: Mapping | _DeviceChoice) -> list[tuple[int, int]]:
    """Devices taken, whole or in part: (family, mask)."""
    masks = dict(devices.whole)
    for family, device, _ in devices.pieces:
        masks[family] = masks.get(family, 0) | 1 << device
    return sorted(masks.items())


class Mapper:
    """The mappings of one topology, remembered by (state, demand): equal nodes ask once."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._known: dict[tuple[ResourceState, Demand], Mapping | None] = {}

    def map(self, state: ResourceState, demand: Demand) -> Mapping | None:
        """The best mapping, or None when the node cannot hold the kernel."""
        key = (state, demand)
        if key not in self._known:
            if len(self._known) >= _MEMO_LIMIT:
                self._known.clear()
            self._known[key] = _find_mapping(self.topology, state, demand)
        return self._known[key]


def _find_mapping(topology: Topology, state: ResourceState, demand: Demand) -> Mapping | None:
    room = domain_room(topology, state)
    every = tuple(range(len(topology.domains)))
    if not _has_room(topology, state, room, every, demand):
        return None
    if demand.numa == "interleaving":
        devices = _choose_devices(topology, state, room, every, demand)
        return _build_mapping(topology, state, room, every, demand, devices) if devices else None
    for size in range(1, len(every) + 1):
        best: tuple[tuple[int, ...], tuple[int, ...], _DeviceChoice] | None = None
        nearest = None
        for distance, domains in topology.subsets(size):
            if nearest is not None and distance > nearest:
                break
            if not _has_room(topology, state, room, domains, demand):
                continue
            devices = _choose_devices(topology, state, room, domains, demand)
            if devices is None:
                continue
            nearest = distance
            key = _rank(state, room, topology, domains, devices)
            if best is None or key < best[0]:
                best = (key, domains, devices)
        if best is not None:
            return _build_mapping(topology, state, room, best[1], demand, best[2])
    return None


def _choose_devices(
    topology: Topology, state: ResourceState, room: DomainRoom, domains: tuple[int, ...], demand: Demand
) -> _DeviceChoice | None:
    """Devices on these domains. With GPUDirect Storage they sit on no more domains than there are cores for:
    on as many as may be where they are to be spread, else on as few."""
    active = _usable_domains(topology, room, domains, demand)
    devices = _best_devices(topology, state, active, demand)
    if devices is None or _covers_device_domains(topology, demand, devices):
        return devices
    sizes = range(1, min(demand.cores, len(active)) + 1)
    for size in reversed(sizes) if demand.numa == "interleaving" else sizes:
        subsets = [one for _, one in topology.subsets(size) if set(one) <= set(active)]
        found = [_best_devices(topology, state, one, demand) for one in subsets]
        ranked = [(one.rank, at, one) for at, one in enumerate(found) if one is not None]
        if ranked:
            return min(ranked)[2]
    return None


def _has_room(
    topology: Topology, state: ResourceState, room: DomainRoom, domains: tuple[int, ...], demand: Demand
) -> bool:
    """Whether cores, memory, huge pages and whole devices suffice on these domains together."""
    if demand.cores and sum(room.cores[at] for at in domains) < demand.cores:
        return False
    if demand.milli and sum(room.milli[at] for at in domains) < demand.milli:
        return False
    if demand.memory and sum(room.memory[at] for at in domains) < demand.memory:
        return False
    for slot, amount in demand.pages:
        if slot not in room.pages or sum(room.pages[slot][at] for at in domains) < amount:
            return False
    for slot, count in demand.whole:
        at = topology.by_slot.get(slot)
        if at is None or (state.free[at] & topology.families[at].within(domains)).bit_count() < count:
            return False
    return True


def _usable_domains(
    topology: Topology, room: DomainRoom, domains: tuple[int, ...], demand: Demand
) -> tuple[int, ...]:
    """The domains whose devices may be chosen: with GPUDirect Storage, not those whose cores or memory are
    all taken."""
    if not demand.storage:
        return domains
    cpu = room.milli if demand.milli else room.cores
    wanted = demand.cores or demand.milli
    return tuple(
        at
        for at in domains
        if not (wanted and topology.core_masks[at] and not cpu[at])
        and not (demand.memory and topology.memory[at] and not room.memory[at])
    )


def _covers_device_domains(topology: Topology, demand: Demand, devices: _DeviceChoice) -> bool:
    """Whether the demand's cores suffice for one on every domain of its devices, where that is needed."""
    if not (demand.storage and demand.cores):
        return True
    every = tuple(range(len(topology.domains)))
    weights = _device_weights(topology, every, devices)
    return demand.cores >= sum(1 for at in every if weights[at] and topology.core_masks[at])


def _best_devices(
    topology: Topology, state: ResourceState, domains: tuple[int, ...], demand: Demand
) -> _DeviceChoice | None:
    """The best devices on these domains, all slots of the demand."""
    even, nic = demand.numa == "interleaving", demand.fabric
    preferences = fractional.DevicePreferences(even, nic, demand.joined, demand.rails)
    free = list(state.free)
    ranks: list[int] = []
    whole: list[tuple[int, int]] = []
    parts: list[tuple[int, int, int]] = []
    for slot, count in demand.whole:
        at = topology.by_slot[slot]
        family = topology.families[at]
        chosen = family.best(preferences.query(family.within(domains), free[at], count))
        if chosen is None:
            return None
        ranks.extend(family.rank(chosen, free[at], even, nic, preferences.rails))
        free[at] &= ~chosen
        whole.append((at, chosen))
    for share in demand.shares:
        at = topology.by_slot.get(share.slot.removesuffix(".shares") + ".device", -1)
        if at < 0:
            return None
        family = topology.families[at]
        part = {device: left for one, device, left in state.part if one == at}
        found = fractional.choose_parts(family, free[at], part, family.within(domains), share, preferences)
        if found is None:
            return None
        ranks.extend(found.rank)
        parts.extend((at, device, milli) for device, milli in found.grants)
        for device, _ in found.grants:
            free[at] &= ~(1 << device)
    return _DeviceChoice(tuple(ranks), tuple(whole), tuple(parts))


def _rank(
    state: ResourceState,
    room: DomainRoom,
    topology: Topology,
    domains: tuple[int, ...],
    devices: _DeviceChoice,
) -> tuple[int, ...]:
    """Device ranks; then devices left beside it (for requests without any: stay away), cores and memory
    left.
    """
    beside = sum(
        (free & family.within(domains)).bit_count()
        for free, family in zip(state.free, topology.families, strict=True)
    )
    cores = sum(room.cores[at] for at in domains)
    memory = sum(room.memory[at] for at in domains)
    return (*devices.rank, beside, cores, memory, *domains)


def _build_mapping(
    topology: Topology,
    state: ResourceState,
    room: DomainRoom,
    domains: tuple[int, ...],
    demand: Demand,
    devices: _DeviceChoice,
) -> Mapping:
    """Cores and memory beside the chosen devices, and the state after."""
    weights = _device_weights(topology, domains, devices)
    cores = _divide_over_domains(demand, demand.cores, [room.cores[at] for at in domains], weights)
    milli = _divide_over_domains(demand, demand.milli, [room.milli[at] for at in domains], weights)
    memory = _divide_over_domains(
        demand, demand.memory, [room.memory[at] for at in domains], weights if any(weights) else cores
    )
    mask = 0
    for at, count in zip(domains, cores, strict=True):
        mask |= amounts.lowest_bits(state.cores & topology.core_masks[at], count)
    parts = tuple(
        (at, 1000 * whole + part, size)
        for at, whole, part, size in zip(domains, cores, milli, memory, strict=True)
        if whole or part or size
    )
    pages = tuple(_divide_pages(topology, room, domains, demand, weights if any(weights) else cores))
    pages_left, _ = hold_pages(topology.pages, topology.domains, state.pages, pages)
    touched = {at for at, _, _ in parts}
    touched |= {at for at in domains for grant in pages if grant.node == topology.domains[at]}
    for family, chosen in device_masks(devices):
        touched |= topology.families[family].domains_of(chosen)
    return Mapping(
        state=_state_after(state, mask, parts, demand, devices)._replace(pages=pages_left),
        cores=mask,
        parts=parts or ((domains[0], 0, 0),),
        whole=devices.whole,
        pieces=devices.pieces,
        domains=tuple(sorted(touched)) or domains[:1],
        link=sum(topology.families[family].link_cost(chosen) for family, chosen in device_masks(devices)),
        pages=pages,
    )


def _divide_pages(
    topology: Topology, room: DomainRoom, domains: tuple[int, ...], demand: Demand, weights: list[int]
) -> Iterator[PageGrant]:
    """Huge pages over the domains, like memory, but whole ones."""
    for slot, amount in demand.pages:
        size = slots.PAGES[slot]
        free = [room.pages[slot][at] // size for at in domains]
        for at, count in zip(domains, _divide_by_policy(demand, amount // size, free, weights), strict=True):
            if count:
                yield PageGrant(slot, topology.domains[at], count * size)


def _divide_over_domains(demand: Demand, total: int, room: list[int], weights: list[int]) -> list[int]:
    """The total over the domains, near the devices' weights or evenly; with GPUDirect Storage every domain
    that has a device gets some first."""
    if len(room) == 1:
        return [total]
    first = [int(demand.storage and weight > 0 < free) for weight, free in zip(weights, room, strict=True)]
    if any(first) and total >= sum(first):
        rest = [free - one for free, one in zip(room, first, strict=True)]
        more = _divide_by_policy(demand, total - sum(first), rest, weights)
        return [one + other for one, other in zip(first, more, strict=True)]
    return _divide_by_policy(demand, total, room, weights)


def _divide_by_policy(demand: Demand, total: int, room: list[int], weights: list[int]) -> list[int]:
    if demand.numa == "interleaving":
        return amounts.divide_evenly(total, room)
    return amounts.divide_in_proportion(total, weights if any(weights) else room, room)


def _device_weights(topology: Topology, domains: tuple[int, ...], devices: _DeviceChoice) -> list[int]:
    """Milli-devices per domain."""
    weights = dict.fromkeys(domains, 0)
    grants = [(family, at, 1000) for family, chosen in devices.whole for at in bits(chosen)]
    for family, at, milli in (*grants, *devices.pieces):
        domain = topology.families[family].domains[at]
        if domain in weights:
            weights[domain] += milli
    return list(weights.values())


def _state_after(
    state: ResourceState,
    cores: int,
    parts: tuple[tuple[int, int, int], ...],
    demand: Demand,
    devices: _DeviceChoice,
) -> ResourceState:
    memory, shared = list(state.memory), list(state.shared)
    for at, milli, size in parts:
        memory[at] -= size
        shared[at] += milli if demand.milli else 0
    free = list(state.free)
    for family, chosen in devices.whole:
        free[family] &= ~chosen
    left = {(family, device): milli for family, device, milli in state.part}
    for family, device, milli in devices.pieces:
        had = 1000 if free[family] >> device & 1 else left.pop((family, device))
        free[family] &= ~(1 << device)
        if had > milli:
            left[family, device] = had - milli
    part = tuple(sorted((family, device, milli) for (family, device), milli in left.items()))
    return ResourceState(state.cores & ~cores, tuple(shared), tuple(memory), tuple(free), part, state.pages)
