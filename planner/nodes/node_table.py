"""The nodes of one resource group, as numpy arrays for decisions over all of them and as exact states for the
one that is chosen.

Changes are transactions: `checkpoint`, change, then `rollback` or `commit`. Rolling back puts the earlier
states back, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from planner.devices.mapping import Mapper
from planner.model.node_state import (
    ResourceState,
    common_state,
    domain_room,
    hold_kernel,
    initial_state,
    is_possible,
)
from planner.model.request_kinds import RequestKind
from planner.model.topology import Topology, TopologyCache
from planner.model.types import KernelPlacement, NodeInfo, Placement
from planner.model.unhealthy_devices import unhealthy_devices

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CORES, MILLI, MEMORY = 0, 1, 2


class DeviceRows(NamedTuple):
    """Rows of one device slot in the arrays."""

    whole: int
    """Untouched devices."""
    part: int
    """Most milli free on one partly used device."""
    milli: int
    """All free milli, partly used devices included."""


class _Rows(NamedTuple):
    """What the arrays hold of a node, and the number of its hardware and state."""

    totals: Ints
    domains: Ints
    devices: Ints
    number: int


class MapperCache:
    """What all tables of a snapshot share: one topology and one mapper per kind of hardware."""

    def __init__(self) -> None:
        self._topologies = TopologyCache()
        self._mappers: dict[int, Mapper] = {}
        self._by_hardware: dict[int, Mapper] = {}
        """By the hardware's identity; the topologies keep it alive."""

    def mapper(self, node: NodeInfo) -> Mapper:
        found = self._by_hardware.get(id(node.hardware))
        if found is None:
            topology = self._topologies.of(node.hardware)
            found = self._mappers.setdefault(id(topology), Mapper(topology))
            self._by_hardware[id(node.hardware)] = found
        return found


class NodeTable:
    """One group's nodes. `totals[feature, node]` counts whole nodes, `domains[feature, domain, node]` NUMA
    domains.

    Features are CORES (free exclusive), MILLI (free shared), MEMORY (bytes), three per device slot
    (`device_rows`), and bytes of huge pages (`page_rows`). A domain that a
    node does not have holds -1 cores, so that nothing fits there.
    """

    def __init__(self, nodes: Sequence[NodeInfo], mapper_cache: MapperCache) -> None:
        self.nodes = tuple(nodes)
        self.index = {node.name: at for at, node in enumerate(self.nodes)}
        self.mappers = [mapper_cache.mapper(node) for node in self.nodes]
        self.topologies: list[Topology] = [mapper.topology for mapper in self.mappers]
        self.empty_states = _empty_states(self.topologies, self.nodes)
        self.states = list(self.empty_states)
        self.residents: list[dict[tuple[str, str], KernelPlacement]] = [{} for _ in self.nodes]
        hardware_kinds = {id(topology): topology for topology in self.topologies}
        names = sorted({slot for topology in hardware_kinds.values() for slot in topology.by_slot})
        self.device_rows = {
            slot: DeviceRows(3 + 3 * at, 4 + 3 * at, 5 + 3 * at) for at, slot in enumerate(names)
        }
        sizes = sorted({slot for topology in hardware_kinds.values() for slot in topology.pages})
        self.page_rows = {slot: 3 + 3 * len(names) + at for at, slot in enumerate(sizes)}
        self.width = 3 + 3 * len(names) + len(sizes)
        devices = max(
            (len(f.ids) for t in hardware_kinds.values() for f in t.families if f.slot.endswith(".device")),
            default=0,
        )
        self.devices: Ints = np.zeros((devices, len(self.nodes)), dtype=np.int64)
        """Free milli per device (of the `.device` families) and node."""
        self.held: dict[int, dict[tuple[str, str], KernelPlacement]] = {}
        """By node, the places that are held for services: states are without them, too."""
        self.lent: set[str] = set()
        """Sessions on held places, which give way."""
        self.request_source: Callable[[], Mapping[RequestKind, int]] = dict
        """Tells the kinds of GPU requests that the group gets and how often: set by whoever knows the
        sessions."""
        self.depth = max((len(topology.domains) for topology in hardware_kinds.values()), default=1)
        self.totals: Ints = np.zeros((self.width, len(self.nodes)), dtype=np.int64)
        self.domains: Ints = np.zeros((self.width, self.depth, len(self.nodes)), dtype=np.int64)
        self.has_devices: Bools = np.array(
            [topology.has_devices for topology in self.topologies], dtype=np.bool_
        )
        self.change_log: list[int] = []
        """Every node that changed, in order: readers remember how far they have read."""
        self._journal: list[tuple[int, ResourceState]] = []
        self._row_cache: dict[tuple[int, ResourceState], _Rows] = {}
        self.state_numbers = [0] * len(self.nodes)
        """The same for nodes of one hardware in equal states, by node."""
        self._row_count = 0
        self._fill_arrays()
        self.capacity = self.totals.copy()

    @cached_property
    def active(self) -> list[int]:
        """The nodes that are in service."""
        return [at for at, node in enumerate(self.nodes) if node.state == "active"]

    @cached_property
    def request_kinds(self) -> Mapping[RequestKind, int]:
        """Kinds of GPU request that the group gets and how often, most frequent first; asked of
        `request_source` once."""
        return self.request_source()

    def forget_request_kinds(self) -> None:
        """Ask `request_source` again when the kinds are next wanted."""
        self.__dict__.pop("request_kinds", None)

    def checkpoint(self) -> int:
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo every change since `mark`, newest first."""
        while len(self._journal) > mark:
            at, state = self._journal.pop()
            self._store_state(at, state)

    def commit(self, mark: int) -> None:
        """Keep the changes since `mark`; without an outer checkpoint they can no longer be undone."""
        if mark == 0:
            self._journal.clear()

    def set_state(self, at: int, state: ResourceState) -> None:
        self._journal.append((at, self.states[at]))
        self._store_state(at, state)

    def add_resident(self, at: int, session: str, kernel: KernelPlacement) -> None:
        """Note who holds what `set_state` took."""
        self.residents[at][session, kernel.kernel] = kernel

    def restore(self, at: int, session: str, kernel: KernelPlacement) -> tuple[str, ...]:
        """Put a recorded kernel on its node; what of the record cannot be true comes back in words."""
        state, mismatches = hold_kernel(
            self.topologies[at], self.states[at], kernel, unhealthy_devices(self.nodes[at])
        )
        self.add_resident(at, session, kernel)
        self._store_state(at, state)
        return mismatches

    def release(self, gone: Collection[str]) -> None:
        """Take these sessions off their nodes for good; no checkpoint may be open."""
        for at, residents in enumerate(self.residents):
            if any(session in gone for session, _ in residents):
                state = self.state_without(at, gone)
                self.residents[at] = {key: kernel for key, kernel in residents.items() if key[0] not in gone}
                self._store_state(at, state)

    def state_without(self, at: int, gone: Collection[str]) -> ResourceState:
        """The node's state as it would be without these sessions."""
        there = self.residents[at].items()
        state = self._state_with(at, (kernel for (name, _), kernel in there if name not in gone))
        if at not in self.held:
            return state
        return common_state(self.topologies[at], state, self._firm_state(at, gone))

    def _firm_state(self, at: int, gone: Collection[str] = ()) -> ResourceState:
        """With the held places, and without who would give way to them."""
        there, away = self.residents[at].items(), {*gone, *self.lent}
        firm = [kernel for (name, _), kernel in there if name not in away]
        held = [kernel for (name, _), kernel in self.held.get(at, {}).items() if name not in gone]
        return self._state_with(at, (*firm, *held))

    def _state_with(self, at: int, kernels: Iterable[KernelPlacement]) -> ResourceState:
        state = self.empty_states[at]
        for kernel in kernels:
            state, _ = hold_kernel(self.topologies[at], state, kernel)
        return state

    def hold_place(self, place: Placement) -> bool:
        """Hold a place beside all who would not give way to it; no checkpoint may be open. False, and
        nothing is changed, where something of it is not there, or is taken."""
        nodes = {self.index.get(kernel.node, -1) for kernel in place.kernels}
        if -1 in nodes or not nodes or any(self.nodes[at].state != "active" for at in nodes):
            return False
        for at in nodes:
            state = self._firm_state(at, {place.session})
            for kernel in (each for each in place.kernels if self.index[each.node] == at):
                state, mismatches = hold_kernel(self.topologies[at], state, kernel)
                if mismatches or not is_possible(self.topologies[at], state):
                    return False
        for kernel in place.kernels:
            at = self.index[kernel.node]
            self.residents[at].pop((place.session, kernel.kernel), None)
            self.held.setdefault(at, {})[place.session, kernel.kernel] = kernel
        self.renew(nodes)
        return True

    def drop_place(self, place: Placement) -> None:
        """Hold it no longer; no checkpoint may be open."""
        nodes = {self.index[kernel.node] for kernel in place.kernels if kernel.node in self.index}
        for at in nodes & self.held.keys():
            kept = {key: kernel for key, kernel in self.held[at].items() if key[0] != place.session}
            self.held[at] = kept
            if not kept:
                del self.held[at]
        self.renew(nodes)

    def open_held(self) -> None:
        """Within a checkpoint: as if no place were held."""
        for at in self.held:
            self.set_state(at, self._state_with(at, self.residents[at].values()))

    def close_held(self) -> None:
        """Hold the places again beside what was placed meanwhile; no checkpoint may be open."""
        self.renew(self.held)

    def held_at(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """The places (ids) that are held on any of these nodes."""
        return tuple(dict.fromkeys(place for at in nodes for place, _ in self.held.get(at, ())))

    def renew(self, nodes: Iterable[int]) -> None:
        """Make the states of nodes of who is there, and of what is held; no checkpoint may be open."""
        for at in nodes:
            self._store_state(at, self.state_without(at, ()))

    def _store_state(self, at: int, state: ResourceState) -> None:
        self.states[at] = state
        self._refresh_arrays(at)
        self.change_log.append(at)

    def _fill_arrays(self) -> None:
        """The arrays of all nodes, those that are equal at once."""
        equal: dict[tuple[int, int], list[int]] = {}
        for at, (topology, state) in enumerate(zip(self.topologies, self.states, strict=True)):
            equal.setdefault((id(topology), id(state)), []).append(at)
        for nodes in equal.values():
            rows = self._rows_of(nodes[0])
            self.totals[:, nodes] = rows.totals[:, None]
            self.domains[:, :, nodes] = rows.domains[:, :, None]
            self.devices[:, nodes] = rows.devices[:, None]
            for at in nodes:
                self.state_numbers[at] = rows.number

    def _refresh_arrays(self, at: int) -> None:
        rows = self._rows_of(at)
        self.totals[:, at], self.domains[:, :, at], self.devices[:, at] = rows[:3]
        self.state_numbers[at] = rows.number

    def _rows_of(self, at: int) -> _Rows:
        key = (id(self.topologies[at]), self.states[at])
        rows = self._row_cache.get(key)
        if rows is None:
            if len(self._row_cache) > 100_000:
                self._row_cache.clear()
            rows = self._row_cache[key] = self._build_rows(self.topologies[at], self.states[at])
        return rows

    def _build_rows(self, topology: Topology, state: ResourceState) -> _Rows:
        room = domain_room(topology, state)
        table: Ints = np.zeros((self.width, self.depth), dtype=np.int64)
        table[:3, : len(topology.domains)] = (room.cores, room.milli, room.memory)
        for slot, amounts in room.pages.items():
            table[self.page_rows[slot], : len(topology.domains)] = amounts
        totals: Ints = table.sum(axis=1)
        table[CORES, len(topology.domains) :] = -1
        for number, family in enumerate(topology.families):
            feature, free = self.device_rows[family.slot], state.free[number]
            parts = [(family.domains[device], left) for one, device, left in state.part if one == number]
            totals[feature.whole] = free.bit_count()
            totals[feature.part] = max((left for _, left in parts), default=0)
            totals[feature.milli] = 1000 * free.bit_count() + sum(left for _, left in parts)
            for domain in range(len(topology.domains)):
                here = [left for one, left in parts if one in {domain, -1}]
                count = (free & family.within((domain,))).bit_count()
                table[feature.whole, domain] = count
                table[feature.part, domain] = max(here, default=0)
                table[feature.milli, domain] = 1000 * count + sum(here)
        self._row_count += 1
        return _Rows(totals, table, self._device_row(topology, state), self._row_count)

    def _device_row(self, topology: Topology, state: ResourceState) -> Ints:
        """Free milli per device, the `.device` families one after another in the same rows."""
        row: Ints = np.zeros(self.devices.shape[0], dtype=np.int64)
        for number, family in enumerate(topology.families):
            if family.slot.endswith(".device"):
                free = state.free[number]
                row[: len(family.ids)] += [1000 * (free >> at & 1) for at in range(len(family.ids))]
                for one, device, left in state.part:
                    if one == number:
                        row[device] += left
        return row


def _empty_states(topologies: Sequence[Topology], nodes: Sequence[NodeInfo]) -> list[ResourceState]:
    """The state of every node with nothing on it; nodes with the same hardware and reserves share it."""
    known: dict[object, ResourceState] = {}
    states = []
    for topology, node in zip(topologies, nodes, strict=True):
        key = (id(topology), node.reserved_cpus, node.reserved_memory, node.unhealthy)
        state = known.get(key)
        if state is None:
            state = known[key] = initial_state(topology, node)
        states.append(state)
    return states
