"""How the free devices of a group lie: in whole nodes, in fragments, beside too little CPU or memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.model import slots
from planner.nodes import metrics
from planner.nodes.feasibility import Index
from planner.nodes.node_table import CORES, MEMORY, Ints, NodeTable


@dataclass(frozen=True, slots=True)
class FreeDevices:
    """The free devices of one slot on the active nodes of a group."""

    slot: str
    free: int
    """Untouched devices."""
    largest: int
    largest_on: str
    """The largest free block on one node, and the first node that has it; empty when nothing is free."""
    fragments: int
    """Untouched devices on nodes of which others are taken."""
    parts: int
    """Free milli on devices that are partly given away."""
    stranded: int
    """Untouched devices beside which too little CPU or memory is left."""
    nodes_by_free: Mapping[int, int]
    """Number of untouched devices → nodes that have so many, the fullest nodes first."""
    split: tuple[str, ...]
    """Sessions with a container over several NUMA nodes."""


def measure_free_devices(table: NodeTable, active: Index, beside: Mapping[str, int]) -> FreeDevices | None:
    """How the group's devices lie; None where it has none. `beside`: `cpu` (milli) and `mem` (bytes) that a
    device needs beside it."""
    slot = metrics.device_slot(table)
    if slot is None:
        return None
    feature = table.device_rows[slot]
    free, whole = table.totals[feature.whole, active], table.capacity[feature.whole, active]
    largest = int(free.max(initial=0))
    best = table.nodes[int(active[int(free.argmax())])].name if largest else ""
    having = Counter(int(count) for count, most in zip(free, whole, strict=True) if most)
    return FreeDevices(
        slot=slot,
        free=int(free.sum()),
        largest=largest,
        largest_on=best,
        fragments=int(free[free < whole].sum()),
        parts=int((table.totals[feature.milli, active] - 1000 * free).sum()),
        stranded=int(np.maximum(0, free - _devices_fed(table, active, beside)).sum()),
        nodes_by_free=dict(sorted(having.items())),
        split=_sessions_over_numa_nodes(table),
    )


def _devices_fed(table: NodeTable, active: Index, beside: Mapping[str, int]) -> Ints:
    """For how many devices the free cores and memory of each node suffice."""
    fed: Ints = np.full(len(active), np.iinfo(np.int64).max, dtype=np.int64)
    have = {slots.CPU: 1000 * table.totals[CORES, active], slots.MEMORY: table.totals[MEMORY, active]}
    for slot, least in beside.items():
        if least > 0:
            fed = np.minimum(fed, have[slot] // least)
    return fed


def _sessions_over_numa_nodes(table: NodeTable) -> tuple[str, ...]:
    """Sessions of which one container has cores or memory on more than one NUMA node."""
    found = {
        session
        for residents in table.residents
        for (session, _), kernel in residents.items()
        if len({part.node for part in kernel.parts} | set(kernel.memory_nodes)) > 1
    }
    return tuple(sorted(found))
