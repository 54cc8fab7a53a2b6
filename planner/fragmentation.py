"""What a node's free GPUs are worth to the requests that a group typically gets.

Three parts, in milli-devices. (1) Expected usable capacity after Weng et al., "Beware of Fragmentation"
(ATC'23): for each typical request the free capacity on devices it could use, or nothing where cores, memory,
model or devices do not suffice. (2) What the free part of each device is worth to pieces
(`planner.packing`). (3) Minus the capacity that the node's left-over cores and memory cannot feed, at the
average that typical requests take of them per device. No weight is tuned to a load: (2) counts three times,
(3) once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from planner import packing
from planner.demand import Demand
from planner.feasible import Index
from planner.snapshot import Ints, World

COVER = 0.95
"""Share of the requests that count as typical, most frequent first."""
SCALE = 10_000
"""Weights of the typical requests sum to at most this."""
_PIECES = 3


class Typical(NamedTuple):
    """A typical request of one container. `devices` whole ones, or `milli` of one; `cpu` milli-cores;
    `memory` bytes."""

    cpu: int
    memory: int
    devices: int
    milli: int
    models: frozenset[str]


def typical(demands: Iterable[tuple[Demand, frozenset[str]]]) -> dict[Typical, int]:
    """How often each kind of GPU request occurs, kept to the most frequent 95 %. Memory is averaged within a
    kind."""
    counts: Counter[Typical] = Counter()
    memory: Counter[Typical] = Counter()
    for demand, models in demands:
        for devices, milli in _device_parts(demand):
            kind = Typical(1000 * demand.cores + demand.milli, 0, devices, milli, models)
            counts[kind] += 1
            memory[kind] += demand.memory
    kept: dict[Typical, int] = {}
    enough = COVER * counts.total()
    for kind, count in sorted(counts.items(), key=lambda one: (-one[1], one[0][:4], sorted(one[0].models))):
        kept[kind._replace(memory=memory[kind] // count)] = count
        if sum(kept.values()) >= enough:
            break
    return kept


def _device_parts(demand: Demand) -> Iterable[tuple[int, int]]:
    for slot, count in demand.whole:
        if slot.endswith(".device"):
            yield count, 1000
    for share in demand.shares:
        whole, rest = divmod(share.milli, 1000)
        yield (whole + bool(rest), 1000) if whole else (1, rest)


class Worth:
    """The worth of node states to a set of typical requests; arrays over nodes, integers throughout."""

    def __init__(self, world: World, kinds: dict[Typical, int]) -> None:
        kept = list(kinds)
        total = max(1, sum(kinds.values()))
        self._weights: Ints = np.array([SCALE * kinds[kind] // total for kind in kept], dtype=np.int64)
        self._cpu: Ints = np.array([kind.cpu for kind in kept], dtype=np.int64)
        self._devices: Ints = np.array([kind.devices for kind in kept], dtype=np.int64)
        milli: Ints = np.array([kind.milli for kind in kept], dtype=np.int64)
        self._milli = milli
        levels, positions = np.unique(milli, return_inverse=True)
        self._levels, self._level_of = levels.astype(np.int64), positions.astype(np.int64)
        models = [frozenset(gpu.model for gpu in node.hardware.gpus) for node in world.nodes]
        table = {
            one: [not kind.models or not kind.models.isdisjoint(one) for kind in kept] for one in set(models)
        }
        self._serves = np.array([table[one] for one in models], dtype=np.bool_).reshape(
            len(models), len(kept)
        )
        pieces: Counter[int] = Counter()
        for kind in kept:
            pieces[kind.milli] += kinds[kind] * kind.devices
        self._worth = packing.worth(pieces)
        asked = sum(kinds[kind] * kind.devices * kind.milli for kind in kept)
        self._per_cpu = (asked, max(1, sum(kinds[kind] * kind.cpu for kind in kept)))
        self._per_byte = (asked, max(1, sum(kinds[kind] * kind.memory for kind in kept)))

    def of(self, nodes: Index, cpu: Ints, memory: Ints, devices: Ints) -> Ints:
        """Worth (milli-devices × SCALE) of these nodes if they had `cpu` milli-cores, `memory` bytes and
        `devices[device, node]` milli free."""
        usable: Ints = np.stack(
            [(devices * (devices >= level)).sum(axis=0) for level in self._levels], axis=1
        )
        full, largest = (devices >= 1000).sum(axis=0), devices.max(axis=0)
        can = (cpu[:, None] >= self._cpu) & self._serves[nodes]
        can &= np.where(self._milli >= 1000, full[:, None] >= self._devices, largest[:, None] >= self._milli)
        expected: Ints = (usable[:, self._level_of] * can) @ self._weights
        free = devices.sum(axis=0)
        fed = np.minimum(_fed(cpu, self._per_cpu), _fed(memory, self._per_byte))
        stranded = np.maximum(0, free - fed)
        worth: Ints = expected + SCALE * (_PIECES * self._worth[devices].sum(axis=0) - stranded)
        return worth


def _fed(amount: Ints, rate: tuple[int, int]) -> Ints:
    """Milli-devices that an amount of cores or memory feeds at the typical rate (devices, amount)."""
    per_unit = rate[0] / rate[1]
    fed: Ints = np.minimum(amount * per_unit, 1e12).astype(np.int64)
    return fed
