"""What is free on one node, as an immutable value: undoing a change is putting the earlier value back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from planner.model.device_family import mask_of
from planner.model.huge_pages import PagesByDomain, hold_pages, room_of
from planner.model.topology import Topology
from planner.model.types import DeviceGrant, KernelPlacement, NodeInfo, NumaPart
from planner.model.unhealthy_devices import unhealthy_devices
from schemas.values.once_per_value import last_per_value, some_per_value

_MOST_STATES = 8
"""In which it is remembered how a kernel is put on its node."""


class ResourceState(NamedTuple):
    """Free resources of one node. Domains and families are numbered as in its `Topology`."""

    cores: int
    """Mask of cores that nobody holds exclusively."""
    shared: tuple[int, ...]
    """Milli-cores given to shared kernels, per domain."""
    memory: tuple[int, ...]
    """Free bytes per domain; negative when more is recorded than there is."""
    free: tuple[int, ...]
    """Mask of untouched devices, per family."""
    part: tuple[tuple[int, int, int], ...]
    """(family, device, free milli) of devices that are partly given away, ascending."""
    pages: PagesByDomain = ()
    """Free bytes of huge pages per domain, of each of the topology's sizes; negative like memory."""


class DomainRoom(NamedTuple):
    """A state counted per domain: free exclusive cores, free shared milli-cores, free bytes, and, by slot,
    those of huge pages."""

    cores: tuple[int, ...]
    milli: tuple[int, ...]
    memory: tuple[int, ...]
    pages: Mapping[str, tuple[int, ...]]


def domain_room(topology: Topology, state: ResourceState) -> DomainRoom:
    counts = [(state.cores & mask).bit_count() for mask in topology.core_masks]
    cores = tuple(max(0, have + (-used // 1000)) for have, used in zip(counts, state.shared, strict=True))
    milli = tuple(max(0, 1000 * have - used) for have, used in zip(counts, state.shared, strict=True))
    pages = room_of(topology.pages, state.pages)
    return DomainRoom(cores, milli, tuple(max(0, free) for free in state.memory), pages)


def initial_state(topology: Topology, node: NodeInfo) -> ResourceState:
    """A node with nothing on it: reserved cores and memory and unhealthy devices are not there."""
    reserved = {topology.core_of[cpu] for cpu in node.reserved_cpus if cpu in topology.core_of}
    bad = unhealthy_devices(node)
    free = tuple(
        family.all & ~mask_of([at for at, name in enumerate(family.ids) if name in bad])
        for family in topology.families
    )
    return ResourceState(
        cores=topology.usable_cores & ~mask_of(sorted(reserved)),
        shared=(0,) * len(topology.domains),
        memory=_without_reserve(topology.memory, node.reserved_memory),
        free=free,
        part=(),
        pages=tuple(topology.pages.values()),
    )


def _without_reserve(memory: tuple[int, ...], reserved: int) -> tuple[int, ...]:
    """The system's memory is taken from every domain in proportion to its size."""
    whole = sum(memory)
    if whole == 0 or reserved <= 0:
        return memory
    taken = [min(size, reserved * size // whole) for size in memory]
    taken[0] += min(memory[0] - taken[0], max(0, min(reserved, whole) - sum(taken)))
    return tuple(size - gone for size, gone in zip(memory, taken, strict=True))


def common_state(topology: Topology, one: ResourceState, other: ResourceState) -> ResourceState:
    """What is free in both. What fits there fits in either of them, whatever was taken from both before."""
    cores = one.cores & other.cores
    milli = [min(pair) for pair in zip(_milli(topology, one), _milli(topology, other), strict=True)]
    counts = [1000 * (cores & mask).bit_count() for mask in topology.core_masks]
    left = {(f, d): milli for f, d, milli in one.part}, {(f, d): milli for f, d, milli in other.part}
    part = []
    for at in sorted(left[0].keys() | left[1].keys()):
        free = [
            1000 if state.free[at[0]] >> at[1] & 1 else known.get(at, 0)
            for state, known in zip((one, other), left, strict=True)
        ]
        part += [(*at, min(free))] if min(free) else []
    return ResourceState(
        cores=cores,
        shared=tuple(max(0, have - free) for have, free in zip(counts, milli, strict=True)),
        memory=tuple(map(min, zip(one.memory, other.memory, strict=True))),
        free=tuple(mine & theirs for mine, theirs in zip(one.free, other.free, strict=True)),
        part=tuple(part),
        pages=tuple(
            tuple(map(min, zip(*each, strict=True))) for each in zip(one.pages, other.pages, strict=True)
        ),
    )


def is_possible(topology: Topology, state: ResourceState) -> bool:
    """Whether no more of memory, pages and shared cores is given away than there is."""
    amounts = (*state.memory, *_milli(topology, state), *(amount for each in state.pages for amount in each))
    return min(amounts, default=0) >= 0


def _milli(topology: Topology, state: ResourceState) -> list[int]:
    """Free milli-cores per domain; negative where more is given away than there is."""
    counts = ((state.cores & mask).bit_count() for mask in topology.core_masks)
    return [1000 * have - used for have, used in zip(counts, state.shared, strict=True)]


def hold_kernel(
    topology: Topology, state: ResourceState, kernel: KernelPlacement, known: Collection[str] = ()
) -> tuple[ResourceState, tuple[str, ...]]:
    """The state with a recorded kernel on it, and what of the record does not exist or was already taken;
    nothing is said of devices that are `known` to be out of placement."""
    return _held(kernel, topology, state, frozenset(known))


@some_per_value(_MOST_STATES)
def _held(
    kernel: KernelPlacement, topology: Topology, state: ResourceState, known: frozenset[str]
) -> tuple[ResourceState, tuple[str, ...]]:
    """A kernel that stays where it is is put on its node in every plan, and again where the ends of others
    are played through, mostly in the same states."""
    held = _held_amounts(kernel, topology)
    mismatches = list(held.unknown_cpus)
    if held.cores & ~state.cores & topology.usable_cores:
        mismatches.append("cores that are taken or reserved")
    mismatches += held.unknown_domains
    pages, no_pages = hold_pages(topology.pages, topology.domains, state.pages, kernel.hugepages)
    mismatches += no_pages
    shared, memory = list(state.shared), list(state.memory)
    for at, milli, size in held.domains:
        memory[at] -= size
        shared[at] += milli
    free, part_free, missing = _hold_devices(state, held.devices, known)
    left = ResourceState(state.cores & ~held.cores, tuple(shared), tuple(memory), free, part_free, pages)
    return left, (*mismatches, *missing)


class _HeldAmounts(NamedTuple):
    """What a kernel holds of a kind of machine, and in words what there is not."""

    cores: int
    """Mask."""
    unknown_cpus: tuple[str, ...]
    domains: tuple[tuple[int, int, int], ...]
    """Index of the NUMA domain, milli-cores of shared CPU, bytes."""
    unknown_domains: tuple[str, ...]
    devices: tuple[tuple[DeviceGrant, tuple[int, int] | None], ...]
    """With the index of the device's family and its own in that; None where there is no such device."""


@last_per_value
def _held_amounts(kernel: KernelPlacement, topology: Topology) -> _HeldAmounts:
    there, parts = topology.core_of, tuple(_numa_parts(topology, kernel))
    return _HeldAmounts(
        mask_of(sorted({there[cpu] for cpu in kernel.cpus if cpu in there})),
        tuple(f"CPU {cpu}" for cpu in kernel.cpus if cpu not in there),
        tuple(
            (topology.domains.index(part.node), 0 if kernel.cpus else part.cpu_milli, part.memory)
            for part in parts
            if part.node in topology.domains
        ),
        tuple(f"NUMA node {part.node}" for part in parts if part.node not in topology.domains),
        tuple((grant, _device_index(topology, grant.id)) for grant in kernel.devices),
    )


def _device_index(topology: Topology, device: str) -> tuple[int, int] | None:
    families = ((at, family.ids) for at, family in enumerate(topology.families) if device in family.ids)
    return next(((at, ids.index(device)) for at, ids in families), None)


def _numa_parts(topology: Topology, kernel: KernelPlacement) -> Iterable[NumaPart]:
    if kernel.parts:
        return kernel.parts
    nodes = kernel.memory_nodes or topology.domains[:1]
    each, rest = divmod(kernel.memory, len(nodes))
    milli, milli_rest = divmod(kernel.cpu_milli, len(nodes))
    return tuple(
        NumaPart(node, milli + (at < milli_rest), each + (rest if at == 0 else 0))
        for at, node in enumerate(nodes)
    )


def _hold_devices(
    state: ResourceState,
    grants: Iterable[tuple[DeviceGrant, tuple[int, int] | None]],
    known: Collection[str],
) -> tuple[tuple[int, ...], tuple[tuple[int, int, int], ...], list[str]]:
    free = list(state.free)
    part = {(family, device): left for family, device, left in state.part}
    missing = []
    for grant, found in grants:
        if found is None:
            missing.append(f"device {grant.id}")
            continue
        at, device = found
        left = 1000 if free[at] >> device & 1 else part.get(found, 0)
        if left < grant.milli and grant.id not in known:
            missing.append(f"device {grant.id}, of which {left} milli are free and {grant.milli} recorded")
        free[at] &= ~(1 << device)
        part.pop(found, None)
        if left > grant.milli:
            part[found] = left - grant.milli
    return tuple(free), tuple(sorted((f, d, left) for (f, d), left in part.items())), missing
