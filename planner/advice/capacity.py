"""What a group still has room for: free slots, how many more sessions of each size fit, and how scattered its
free devices are.

Only active nodes count. Sizes are whole devices (cores in a group without devices), and the requests that the
group's own sessions make, most frequent first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from planner.advice.repartition import Repartition, repartitions
from planner.model import slots
from planner.model.types import GroupInfo, Outcome, SlotMap, Snapshot
from planner.nodes import metrics
from planner.nodes.feasibility import Index
from planner.nodes.free_devices import FreeDevices, measure_free_devices
from planner.nodes.node_table import CORES, Ints, NodeTable
from planner.selection.base import Need
from planner.selection.concentrated import Concentrated
from planner.selection.from_snapshot import build_group_table, group_sessions
from planner.selection.gang import Shape, ShapeCache, allocate
from planner.selection.need_mapping import map_need
from planner.selection.node_scorer import NodeScorer
from planner.waiting.explain import demand_text, wanted_resources

CORE_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COVER, MOST = 0.95, 6
"""Share of a group's sessions that count as typical, and most kinds of them."""
MOST_GANGS = 1000
"""Gangs of unlike containers are counted so far, by placing them."""


@dataclass(frozen=True, slots=True)
class SizeFit:
    """How many more sessions of one size fit beside each other, alone on what is free."""

    words: str
    fits: int
    one_numa: int | None
    """Of these, how many would stay on one NUMA node each; None where only the mapping could tell."""
    asked: int = 0
    """How many sessions of the group ask for it; 0 for a size that stands for itself."""
    nodes: int = 1
    """Nodes that one such session takes."""
    at_least: bool = False
    """More may fit: counted by placing one after another."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group at one moment. Slots in smallest units."""

    capacity: SlotMap
    used: SlotMap
    free: SlotMap
    active: int
    nodes: int
    sizes: tuple[SizeFit, ...]
    typical: tuple[SizeFit, ...]
    scatter: FreeDevices | None = None
    """None for a group without devices."""


@dataclass(frozen=True, slots=True)
class GroupCapacity:
    """One group before and after a plan."""

    group: str
    before: GroupView
    after: GroupView
    least_beside: Mapping[str, int] = field(default_factory=dict)
    """`cpu` (milli) and `mem` (bytes) without which a free device counts as stranded."""
    layouts: tuple[Repartition, ...] = ()
    """MIG layouts that would serve those who still wait."""


def capacities(
    before: Snapshot, after: Snapshot, place: Callable[[Snapshot], Outcome]
) -> tuple[GroupCapacity, ...]:
    """Every group of the snapshots; typical are the requests of those who run or wait in `after`. `place`:
    the planner with the policies that groups name."""
    found = []
    for group in after.groups:
        shapes = _typical_shapes(after, group)
        beside = least_beside_device(shapes)
        tables = [build_group_table(snapshot, group) for snapshot in (before, after)]
        views = [_group_view(table, group, shapes, beside) for table in tables]
        found.append(GroupCapacity(group.name, views[0], views[1], beside, repartitions(after, group, place)))
    return tuple(found)


def group_views(snapshot: Snapshot) -> dict[str, GroupView]:
    """Every group of one snapshot, by name, without what its sessions typically ask for."""
    beside = least_beside_device({})
    return {
        group.name: _group_view(build_group_table(snapshot, group), group, {}, beside)
        for group in snapshot.groups
    }


def _typical_shapes(snapshot: Snapshot, group: GroupInfo) -> dict[Shape, int]:
    """How often each shape is asked for, kept to the most frequent."""
    shapes = ShapeCache(group)
    known = Counter(shapes.of(session) for session in group_sessions(snapshot, group) if session.kernels)
    asked = {shape: count for shape, count in known.items() if _asks_for_something(shape)}
    kept: dict[Shape, int] = {}
    for shape, count in sorted(asked.items(), key=lambda one: (-one[1], _shape_text(one[0]))):
        if len(kept) == MOST or sum(kept.values()) >= COVER * sum(asked.values()):
            break
        kept[shape] = count
    return kept


def _asks_for_something(shape: Shape) -> bool:
    demands = [need.sum for need in shape.needs]
    return any(one.cores or one.milli or one.memory or one.pages or one.wants_devices for one in demands)


def _shape_text(shape: Shape) -> str:
    texts = Counter(demand_text(need.sum) for need in shape.needs)
    if len(shape.needs) == 1:
        return next(iter(texts))
    parts = [
        f"{slots.plural(count, 'node')} with {text}{' each' if count > 1 else ''}"
        for text, count in texts.items()
    ]
    return " and ".join(parts)


def least_beside_device(shapes: Mapping[Shape, int]) -> dict[str, int]:
    """CPU (milli) and memory (bytes) that the most modest typical request takes beside each whole device; one
    core where nobody asks for devices."""
    cpu, memory = [], []
    for demand in dict.fromkeys(need.sum for shape in shapes for need in shape.needs):
        devices = sum(count for _, count in demand.whole)
        if devices:
            cpu.append(-(-(1000 * demand.cores + demand.milli) // devices))
            memory.append(-(-demand.memory // devices))
    return {slots.CPU: min(cpu, default=1000), slots.MEMORY: min(memory, default=0)}


def _group_view(
    table: NodeTable, group: GroupInfo, shapes: Mapping[Shape, int], beside: Mapping[str, int]
) -> GroupView:
    capacity, used = metrics.slot_totals(table, table.capacity), metrics.used_slots(table)
    active = np.array([at for at, node in enumerate(table.nodes) if node.state == "active"], dtype=np.intp)
    scorer = NodeScorer(table, group.selection, Concentrated(group, table))
    return GroupView(
        capacity=capacity,
        used=used,
        free={slot: capacity[slot] - used[slot] for slot in capacity},
        active=len(active),
        nodes=len(table.nodes),
        sizes=_fits_by_size(table, active),
        typical=tuple(_fits_of_shape(scorer, shape, count) for shape, count in shapes.items()),
        scatter=measure_free_devices(table, active, beside),
    )


def _fits_by_size(table: NodeTable, active: Index) -> tuple[SizeFit, ...]:
    slot = metrics.device_slot(table)
    feature = table.device_rows[slot].whole if slot else CORES
    word, sizes = (slots.device_word(slot), metrics.SIZES) if slot else ("core", CORE_SIZES)
    most = int(table.capacity[feature, active].max(initial=0))
    free = table.totals[feature, active]
    apart = np.maximum(table.domains[feature][:, active], 0)
    return tuple(
        SizeFit(slots.plural(size, word), int((free // size).sum()), int((apart // size).sum()))
        for size in sizes
        if size <= most
    )


def _fits_of_shape(scorer: NodeScorer, shape: Shape, asked: int) -> SizeFit:
    need, nodes = shape.needs[0], len(shape.needs)
    if shape.one_leaf or len(set(shape.needs)) > 1:
        return SizeFit(
            _shape_text(shape), _count_by_allocating(scorer, shape), None, asked, nodes, at_least=True
        )
    counts, apart = _fits_per_node(scorer, need)
    one = None if apart is None else _most_gangs(apart, nodes)
    return SizeFit(_shape_text(shape), _most_gangs(counts, nodes), one, asked, nodes)


def _count_by_allocating(scorer: NodeScorer, shape: Shape) -> int:
    """How many gangs find their places one after another; nothing is changed."""
    mark, count = scorer.table.checkpoint(), 0
    while count < MOST_GANGS and allocate(scorer, shape) is not None:
        count += 1
    scorer.table.rollback(mark)
    return count


def _fits_per_node(scorer: NodeScorer, need: Need) -> tuple[Ints, Ints | None]:
    """How often the need fits on each node, and how often when no NUMA node is left."""
    table = scorer.table
    admitted = scorer.admitted(need.filter)
    if need.sum.shares:
        known: dict[object, int] = {}
        counts = [
            _count_by_mapping(scorer, need, at, known) if admitted[at] else 0
            for at in range(len(table.nodes))
        ]
        return np.array(counts, dtype=np.int64), None
    apart = np.maximum(_scarcest(table, need, table.domains), 0).sum(axis=0)
    return _scarcest(table, need, table.totals) * admitted, apart * admitted


def _scarcest(table: NodeTable, need: Need, have: Ints) -> Ints:
    """How often the scarcest of the need's resources is there."""
    return reduce(np.minimum, (one.values // one.needed for one in wanted_resources(table, need.sum, have)))


def _count_by_mapping(scorer: NodeScorer, need: Need, at: int, known: dict[object, int]) -> int:
    """How often the need is mapped onto one node, one after another; equal nodes are asked once."""
    state = scorer.table.states[at]
    key = (id(scorer.table.mappers[at]), state)
    if key not in known:
        count = 0
        while (found := map_need(scorer.table, at, need, state)) is not None:
            count, state = count + 1, found[1]
        known[key] = count
    return known[key]


def _most_gangs(counts: Ints, nodes: int) -> int:
    """Most gangs of `nodes` distinct nodes: g of them exist exactly when Σ min(count, g) ≥ g · nodes."""
    low, high = 0, int(counts.sum()) // nodes
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(counts, middle).sum()) >= middle * nodes:
            low = middle
        else:
            high = middle - 1
    return low
