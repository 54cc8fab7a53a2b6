"""The node whose free GPUs lose least worth to typical requests, see `planner.nodes.fragmentation`.

Nodes within 20 milli-devices of the best are equal; the first of a fixed order wins, which keeps filling the
same nodes. The order is by a hash of the node's name, so that nodes bought together do not fill up together.
"""

from __future__ import annotations

import hashlib

import numpy as np

from planner.model.types import GroupInfo
from planner.nodes.feasibility import Index
from planner.nodes.fragmentation import SCALE, UsableCapacity
from planner.nodes.node_table import CORES, MEMORY, MILLI, Ints, NodeTable
from planner.selection.base import Need
from planner.selection.leftover import describe_leftover, leftover

_NO_LOSS = 1 << 50
_TOLERANCE = 20 * SCALE


class LeastFragmentation:
    rotates = False

    def __init__(self, group: GroupInfo, table: NodeTable) -> None:
        del group
        self._by_leftover = not table.request_kinds or not table.devices.shape[0]
        self.tolerance = 0 if self._by_leftover else _TOLERANCE
        names = sorted(range(len(table.nodes)), key=lambda at: _hash(table.nodes[at].name))
        self.order: Ints = np.empty(len(names), dtype=np.int64)
        self.order[names] = np.arange(len(names))
        if not self._by_leftover:
            self._worth = UsableCapacity(table, table.request_kinds)

    def scores(self, table: NodeTable, need: Need, nodes: Index) -> Ints:
        """Worth lost by the placement; without typical GPU requests, what would be left (as
        `concentrated`)."""
        if self._by_leftover:
            return leftover(table, need, nodes)
        cpu, memory, devices = _free_resources(table, nodes)
        before = self._worth.of(nodes, cpu, memory, devices)
        after = self._worth.of(
            nodes,
            cpu - need.sum.milli - 1000 * need.sum.cores,
            memory - need.sum.memory,
            _devices_after(need, devices),
        )
        lost: Ints = np.clip(_NO_LOSS + before - after, 0, 2 * _NO_LOSS)
        return lost

    def describe(self, score: int) -> str:
        if self._by_leftover:
            return describe_leftover(score)
        return f"makes {(score - _NO_LOSS) / SCALE / 1000:.3f} GPU of free capacity less useful"


def _free_resources(table: NodeTable, nodes: Index) -> tuple[Ints, Ints, Ints]:
    """Milli-cores, bytes, and milli per device of all families together."""
    cpu = np.maximum(table.totals[MILLI, nodes], 1000 * table.totals[CORES, nodes])
    return cpu, table.totals[MEMORY, nodes], table.devices[:, nodes]


def _devices_after(need: Need, devices: Ints) -> Ints:
    """Devices after the need: whole ones first, then each part on the device that it leaves least on."""
    after = devices.copy()
    whole = sum(count for slot, count in need.sum.whole if slot.endswith(".device"))
    whole += sum(share.milli // 1000 for share in need.sum.shares)
    if whole:
        full = after >= 1000
        after[full & (full.cumsum(axis=0) <= whole)] = 0
    columns = np.arange(after.shape[1])
    for share in need.sum.shares:
        rest = share.milli % 1000
        if rest:
            best = np.where(after >= rest, after, 1 << 40).argmin(axis=0)
            after[best, columns] = np.maximum(0, after[best, columns] - rest)
    return after


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()
