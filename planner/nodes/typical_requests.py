"""The kinds of GPU request that a group gets: how often each occurs, which are typical, and which of the rest
only few nodes can serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from planner.model.demand import Demand
from planner.nodes.node_arrays import CORES, MEMORY, MILLI, Bools, Ints, World

COVER = 0.95
"""Share of the requests that count as typical, most frequent first."""
FEW = 0.5
"""A request is scarce when nodes with less than this share of the group's devices can serve it."""


class Kind(NamedTuple):
    """A request of one container. `devices` whole ones, or `milli` of one; `cpu` milli-cores; `memory`
    bytes."""

    cpu: int
    memory: int
    devices: int
    milli: int
    models: frozenset[str]

    @property
    def demand(self) -> int:
        """Milli-devices."""
        return self.devices * self.milli


def kinds_of(demands: Iterable[tuple[Demand, frozenset[str]]]) -> dict[Kind, int]:
    """How often each kind of GPU request occurs, most frequent first. Memory is averaged within a kind."""
    counts: Counter[Kind] = Counter()
    memory: Counter[Kind] = Counter()
    for demand, models in demands:
        for devices, milli in _device_parts(demand):
            kind = Kind(1000 * demand.cores + demand.milli, 0, devices, milli, models)
            counts[kind] += 1
            memory[kind] += demand.memory
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0][:4], sorted(one[0].models)))
    return {kind._replace(memory=memory[kind] // count): count for kind, count in ordered}


def _device_parts(demand: Demand) -> Iterable[tuple[int, int]]:
    for slot, count in demand.whole:
        if slot.endswith(".device"):
            yield count, 1000
    for share in demand.shares:
        whole, rest = divmod(share.milli, 1000)
        yield (whole + bool(rest), 1000) if whole else (1, rest)


def typical(kinds: Mapping[Kind, int]) -> dict[Kind, int]:
    """The most frequent of `kinds`, which come in that order, until they cover 95 %."""
    kept: dict[Kind, int] = {}
    enough = COVER * sum(kinds.values())
    for kind, count in kinds.items():
        kept[kind] = count
        if sum(kept.values()) >= enough:
            break
    return kept


def scarce(world: World, kinds: Mapping[Kind, int]) -> dict[Kind, float]:
    """Kinds that are not typical and that few nodes can serve → how much of what these nodes have they ask
    for: their share of the demand over the nodes' share of the devices, at most 1."""
    devices = _devices(world)
    total, demand = int(devices.sum()), sum(kind.demand * count for kind, count in kinds.items())
    found = {}
    for kind in [kind for kind in kinds if kind not in typical(kinds)]:
        supply = int(devices[_able(world, kind, devices)].sum())
        if 0 < supply < FEW * total:
            found[kind] = min(1.0, kind.demand * kinds[kind] / demand * total / supply)
    return found


def serving(world: World, kinds: Iterable[Kind]) -> Bools:
    """Whether each node has a device of the models that each kind names; shape (nodes, kinds)."""
    asked = [kind.models for kind in kinds]
    models = [frozenset(gpu.model for gpu in node.hardware.gpus) for node in world.nodes]
    table = {one: [not wanted or not wanted.isdisjoint(one) for wanted in asked] for one in set(models)}
    return np.array([table[one] for one in models], dtype=np.bool_).reshape(len(models), len(asked))


def _devices(world: World) -> Ints:
    """Devices of each empty node."""
    rows = [feature.whole for slot, feature in world.features.items() if slot.endswith(".device")]
    devices: Ints = world.capacity[rows].sum(axis=0)
    return devices


def _able(world: World, kind: Kind, devices: Ints) -> Bools:
    """The nodes that could serve one request of this kind with nothing else on them."""
    cpu = np.maximum(world.capacity[MILLI], 1000 * world.capacity[CORES])
    able: Bools = (cpu >= kind.cpu) & (world.capacity[MEMORY] >= kind.memory) & (devices >= kind.devices)
    return able & serving(world, [kind])[:, 0]
