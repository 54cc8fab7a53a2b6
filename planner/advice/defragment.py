"""Moves of running sessions that join what is free into larger blocks.

Greedy, one batch after another: of every node, some of its movable sessions are taken away and placed
elsewhere by the planner's own transaction (checkpoint, try, roll back); of all batches that help, the one
that helps the largest size is kept, with the fewest moves. A batch is kept whole or not at all. Nothing is
moved to more NUMA nodes than it had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.admission.reserved_nodes import NodeReservations
from planner.model import slots
from planner.model.plan_time import PlanTime
from planner.model.types import GroupInfo, KernelPlacement, Placement, Running, Snapshot
from planner.nodes import metrics
from planner.nodes.node_table import CORES
from planner.selection.concentrated import Concentrated
from planner.selection.from_snapshot import build_group_table
from planner.selection.gang import ShapeCache, try_place
from planner.selection.node_scorer import NodeScorer

MOST_NODES = 64
"""Nodes looked at for each batch, those first that would be left with the largest free block."""
CORE_SIZES = (2, 4, 8, 16, 32, 64, 128, 256)


class FreeBlocks(NamedTuple):
    """What fits, by how much it matters: sessions of each size beside each other, largest size first, and the
    largest free block on one node (devices; cores in a group without)."""

    fits: tuple[int, ...]
    largest: int


@dataclass(frozen=True, slots=True)
class Move:
    """One session from one node to another, and what its batch gains."""

    session: str
    group: str
    before: Placement
    after: Placement
    gain: str


def defragment(snapshot: Snapshot, movable: Collection[str], most: int) -> tuple[Move, ...]:
    """At most `most` moves of `movable` sessions (ids), in the order in which they are to be made: a later
    one may need the room that an earlier one leaves.

    Only sessions on one node are moved; in a group with devices, only those that hold some.
    """
    found: list[Move] = []
    for group in snapshot.groups:
        if most > len(found):
            found += _GroupDefragmenter(snapshot, group, movable).moves(most - len(found))
    return tuple(found)


class _Batch(NamedTuple):
    """Sessions off one node, and what it takes to compare: the first size that gains (0 the largest), moves,
    what it leads to, devices that are moved."""

    level: int
    moves: int
    room: FreeBlocks
    disturbed: int
    node: int
    sessions: tuple[Running, ...]

    @property
    def rank(self) -> tuple[object, ...]:
        names = tuple(one.request.id for one in self.sessions)
        better = (*(-fits for fits in self.room.fits), -self.room.largest)
        return (self.level, self.moves, better, self.disturbed, self.node, names)


class _GroupDefragmenter:
    """One group while its sessions are moved about."""

    def __init__(self, snapshot: Snapshot, group: GroupInfo, movable: Collection[str]) -> None:
        self._table = table = build_group_table(snapshot, group)
        self._group = group
        self._scorer = NodeScorer(table, "concentrated", Concentrated(group, table))
        self._shapes = ShapeCache(group)
        self._reserved = NodeReservations(group, table, PlanTime(snapshot.now))
        self._active = [at for at, node in enumerate(table.nodes) if node.state == "active"]
        slot = metrics.device_slot(table)
        self._feature = table.device_rows[slot].whole if slot else CORES
        self._word = slots.device_word(slot) if slot else "core"
        top = int(table.capacity[self._feature, self._active].max(initial=0)) if self._active else 0
        self._sizes = [s for s in reversed(metrics.SIZES if slot else CORE_SIZES) if s <= top]
        self._movable_on: dict[int, list[Running]] = {}
        for one in snapshot.running:
            nodes = {kernel.node for kernel in one.placement.kernels}
            if one.request.group != group.name or one.request.id not in movable or len(nodes) != 1:
                continue
            at = table.index.get(next(iter(nodes)))
            if at in self._active and (slot is None or _device_milli(one.placement)):
                self._movable_on.setdefault(at, []).append(one)

    def moves(self, most: int) -> Iterator[Move]:
        """Batch by batch, until nothing helps or enough was moved."""
        left = most
        while left > 0:
            room = self._free_blocks()
            best = min(self._batches(room, left), key=lambda one: one.rank, default=None)
            if best is None:
                return
            undo = self._try_batch(best.node, best.sessions)
            assert undo is not None
            self._table.commit(0)
            gain = self._gain_text(room, best.room)
            for one, after in zip(best.sessions, undo.placements, strict=True):
                self._movable_on[best.node].remove(one)
                yield Move(one.request.id, self._group.name, one.placement, after, gain)
                # Who was moved stays: moving it again would disturb it twice.
            left -= best.moves

    def _batches(self, room: FreeBlocks, most: int) -> Iterator[_Batch]:
        for at in sorted(self._movable_on, key=self._most_promising_first)[:MOST_NODES]:
            for sessions in _subsets(self._movable_on[at], most):
                undo = self._try_batch(at, sessions)
                if undo is None:
                    continue
                after = self._free_blocks()
                self._undo_batch(undo)
                pairs = zip((*after.fits, after.largest), (*room.fits, room.largest), strict=True)
                gained = [new - old for new, old in pairs]
                level = next((step for step, more in enumerate(gained) if more), -1)
                if level >= 0 and gained[level] > 0:
                    disturbed = sum(_device_milli(one.placement) for one in sessions)
                    yield _Batch(level, len(sessions), after, disturbed, at, sessions)

    def _most_promising_first(self, at: int) -> tuple[int, int, str]:
        """Sort key: the largest block that could be left, then the least to move."""
        moved = sum(_device_milli(one.placement) for one in self._movable_on[at]) // 1000
        free = int(self._table.totals[self._feature, at])
        return (-free - moved, moved, self._table.nodes[at].name)

    def _free_blocks(self) -> FreeBlocks:
        free = self._table.totals[self._feature, self._active]
        return FreeBlocks(tuple(int((free // size).sum()) for size in self._sizes), int(free.max(initial=0)))

    def _try_batch(self, at: int, sessions: Sequence[Running]) -> _Undo | None:
        """Take these sessions off their node and place them on others; None, with nothing changed, when one
        of them fits nowhere else as well as here."""
        table = self._table
        undo = _Undo(table.checkpoint(), at, dict(table.residents[at]), [])
        gone = {one.request.id for one in sessions}
        table.set_state(at, table.state_without(at, gone))
        table.residents[at] = {key: one for key, one in undo.residents.items() if key[0] not in gone}
        for one in sessions:
            away = tuple(sorted({at, *self._reserved.blocked_nodes(one.request)}))
            placement = try_place(self._scorer, one.request, self._shapes.of(one.request), away)
            if placement is not None:
                undo.placements.append(placement)
            if placement is None or _most_numa_nodes(placement) > _most_numa_nodes(one.placement):
                self._undo_batch(undo)
                return None
        return undo

    def _undo_batch(self, undo: _Undo) -> None:
        table = self._table
        table.rollback(undo.mark)
        for placement in undo.placements:
            for kernel in placement.kernels:
                del table.residents[table.index[kernel.node]][placement.session, kernel.kernel]
        table.residents[undo.node] = undo.residents

    def _gain_text(self, before: FreeBlocks, after: FreeBlocks) -> str:
        parts = []
        if before.largest != after.largest:
            parts.append(f"largest free block {before.largest} -> {slots.plural(after.largest, self._word)}")
        for size, old, new in zip(self._sizes, before.fits, after.fits, strict=True):
            if old != new:
                parts.append(f"room for sessions of {slots.plural(size, self._word)} {old} -> {new}")
        return ", ".join(parts)


class _Undo(NamedTuple):
    mark: int
    node: int
    residents: dict[tuple[str, str], KernelPlacement]
    placements: list[Placement]


def _subsets(here: Sequence[Running], most: int) -> Iterator[tuple[Running, ...]]:
    """Each session alone, then the smallest two, three, ... together."""
    ordered = sorted(here, key=lambda one: (_device_milli(one.placement), one.request.id))
    yield from ((one,) for one in ordered)
    for count in range(2, min(len(ordered), most) + 1):
        yield tuple(ordered[:count])


def _device_milli(placement: Placement) -> int:
    """Devices that a session holds, in milli."""
    return sum(grant.milli for kernel in placement.kernels for grant in kernel.devices)


def _most_numa_nodes(placement: Placement) -> int:
    """NUMA nodes of the container that has most of them."""
    used = ({part.node for part in one.parts} | set(one.memory_nodes) for one in placement.kernels)
    return max(map(len, used), default=1)


def snapshot_after_moves(snapshot: Snapshot, moves: Sequence[Move]) -> Snapshot:
    """The snapshot after the moves."""
    places = {one.session: one.after for one in moves}
    running = tuple(
        replace(one, placement=places.get(one.request.id, one.placement)) for one in snapshot.running
    )
    return replace(snapshot, running=running)
