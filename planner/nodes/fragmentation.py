"""What a node's free GPUs are worth to the requests that a group typically gets.

Four parts, in milli-devices. (1) Expected usable capacity after Weng et al., "Beware of Fragmentation"
(ATC'23): for each typical request the free capacity on devices it could use, or nothing where cores, memory,
model or devices do not suffice. (2) The same for rare requests that only few nodes can serve: there each
counts by how much of those nodes it asks for rather than by how often it comes, so that the only nodes with
enough cores for the largest requests are not worn away by small ones. (3) What the free part of each device
is worth to pieces (`planner.nodes.part_prices`). (4) Minus the capacity that the node's left-over cores and
memory cannot feed, at the average that typical requests take of them per device. No weight is tuned to a
load: (3) counts three times, the others once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from planner.model.request_kinds import RequestKind
from planner.nodes import part_prices
from planner.nodes.feasibility import Index
from planner.nodes.node_table import Ints, NodeTable
from planner.nodes.typical_requests import scarce_kinds, serving_nodes, typical_kinds

SCALE = 10_000
"""Weights of the typical requests sum to at most this."""
_PARTS_WEIGHT = 3


class UsableCapacity:
    """The worth of node states to a group's requests; arrays over nodes, integers throughout."""

    def __init__(self, table: NodeTable, kinds: Mapping[RequestKind, int]) -> None:
        """`kinds`: how often each kind of request comes, most frequent first."""
        common, rare = typical_kinds(kinds), scarce_kinds(table, kinds)
        total = max(1, sum(common.values()))
        weights = [SCALE * count // total for count in common.values()]
        weights += [int(SCALE * pressure) for pressure in rare.values()]
        kept = [*common, *rare]
        self._weights: Ints = np.array(weights, dtype=np.int64)
        self._cpu: Ints = np.array([kind.cpu for kind in kept], dtype=np.int64)
        self._memory: Ints = np.array([kind.memory for kind in kept], dtype=np.int64)
        self._devices: Ints = np.array([kind.devices for kind in kept], dtype=np.int64)
        self._milli: Ints = np.array([kind.milli for kind in kept], dtype=np.int64)
        levels, positions = np.unique(self._milli, return_inverse=True)
        self._levels, self._level_of = levels.astype(np.int64), positions.astype(np.int64)
        self._serves = serving_nodes(table, kept)
        pieces: Counter[int] = Counter()
        for kind, count in common.items():
            pieces[kind.milli] += count * kind.devices
        self._part_values = part_prices.free_part_values(pieces)
        asked = sum(kind.demand * count for kind, count in common.items())
        self._per_cpu = (asked, max(1, sum(kind.cpu * count for kind, count in common.items())))
        self._per_byte = (asked, max(1, sum(kind.memory * count for kind, count in common.items())))

    def of(self, nodes: Index, cpu: Ints, memory: Ints, devices: Ints) -> Ints:
        """Worth (milli-devices × SCALE) of these nodes if they had `cpu` milli-cores, `memory` bytes and
        `devices[device, node]` milli free."""
        usable: Ints = np.stack(
            [(devices * (devices >= level)).sum(axis=0) for level in self._levels], axis=1
        )
        full, largest = (devices >= 1000).sum(axis=0), devices.max(axis=0)
        can = (cpu[:, None] >= self._cpu) & (memory[:, None] >= self._memory) & self._serves[nodes]
        can &= np.where(self._milli >= 1000, full[:, None] >= self._devices, largest[:, None] >= self._milli)
        expected: Ints = (usable[:, self._level_of] * can) @ self._weights
        free = devices.sum(axis=0)
        fed = np.minimum(_devices_fed(cpu, self._per_cpu), _devices_fed(memory, self._per_byte))
        stranded = np.maximum(0, free - fed)
        worth: Ints = expected + SCALE * (_PARTS_WEIGHT * self._part_values[devices].sum(axis=0) - stranded)
        return worth


def _devices_fed(amount: Ints, rate: tuple[int, int]) -> Ints:
    """Milli-devices that an amount of cores or memory feeds at the typical rate (devices, amount)."""
    per_unit = rate[0] / rate[1]
    fed: Ints = np.minimum(amount * per_unit, 1e12).astype(np.int64)
    return fed
