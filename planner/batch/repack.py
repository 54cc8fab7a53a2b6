"""A plan that sees the whole queue: what starts in it is packed anew, so that more of what waits fits.

Only sessions that have not started are moved, everybody who was placed stays placed, and quotas and the
queue's `maxSkips` hold as before. The packing decides nodes; cores, NUMA nodes and devices are mapped by the
planner's own transaction, and a packing that it cannot map is dropped. Where nothing starts in the plan there
is nothing to move, and what waits has been found to fit nowhere: then nothing is packed.

The work is bounded by the group's time limit: so much that a usual machine needs a part of it. The limit by
the clock ends what a far slower machine does; the plan says so, since it rests on the clock then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.batch.greedy import fits_on_empty_node
from planner.batch.time_limit import PackingTime
from planner.batch.values import Effort, Fill, NodeClass, Packing, RequestClass, request_value
from planner.model.slots import DEVICE
from planner.model.types import GroupInfo, NodeInfo, Outcome, Placement, Running, SessionRequest, Snapshot
from planner.nodes.node_table import MEMORY, MILLI, NodeTable
from planner.selection.base import Need
from planner.selection.from_snapshot import build_group_table
from planner.selection.gang import ShapeCache

PlaceFunction = Callable[[Snapshot], Outcome]
_WORK_PER_SECOND = 25_000_000
"""Entries of pricing's tables for each second of the limit: a core that is slow for a server does three to
six times as many."""


class _RequestKey(NamedTuple):
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str]


@dataclass(frozen=True, slots=True)
class _PackableQueue:
    """The group's sessions that can be packed, by what they ask for: those placed already, and those that
    wait for room, each in the order of the queue."""

    placed: dict[_RequestKey, list[SessionRequest]]
    waiting: dict[_RequestKey, list[SessionRequest]]


def repack(
    snapshot: Snapshot, group: GroupInfo, outcome: Outcome, place_again: PlaceFunction, time: PackingTime
) -> Outcome:
    """The outcome with more of the group's sessions placed, or the same outcome when none was found."""
    waiting = _waiting_for_room(outcome, group)
    held = any(one.request.group == group.name for one in outcome.held)
    if group.reservations or group.preemption or held or not waiting:
        return outcome
    try:
        from planner.batch.cutting_stock import pack
    except ImportError:
        text = f"group {group.name}: packing whole-queue needs OR-Tools: pip install 'bai[batch]'"
        return replace(outcome, warnings=(*outcome.warnings, text))
    queue = _packable_queue(snapshot, group, outcome, waiting)
    if not queue.waiting or not queue.placed:
        return outcome
    nodes = _node_classes(build_group_table(_snapshot_without_packed(snapshot, outcome, queue), group))
    if not nodes:
        return outcome
    kinds = sorted({*queue.placed, *queue.waiting}, key=lambda kind: (*kind[:4], sorted(kind.models)))
    requests = [_request_class(kind, queue) for kind in kinds]
    start = [
        (at, fill, count)
        for at, fill, count in _current_fills(list(nodes.values()), kinds, queue, outcome)
        if fits_on_empty_node(list(nodes)[at], fill, requests)  # beside parts of devices that others hold
    ]
    effort = Effort(pricing=_WORK_PER_SECOND * group.packing_time_limit)
    limit = time.limit(group.name, group.packing_time_limit)
    packing = pack(list(nodes), requests, effort, start, limit)
    time.spent[group.name] = group.packing_time_limit - limit.left()
    if limit.reached:
        outcome = _mention_limit(outcome, group)
    node_by_session = _node_by_session(packing, list(nodes.values()), kinds, queue)
    return _place_packing(snapshot, group, outcome, node_by_session, place_again)


def _waiting_for_room(outcome: Outcome, group: GroupInfo) -> list[str]:
    """Sessions of the group that wait for room and for nothing else, in the order of the queue."""
    return [
        wait.session
        for wait in outcome.waits
        if wait.group == group.name and {reason.code for reason in wait.reasons} == {"no-capacity"}
    ]


def _packable_queue(
    snapshot: Snapshot, group: GroupInfo, outcome: Outcome, waiting: Sequence[str]
) -> _PackableQueue:
    sessions = {session.id: session for session in snapshot.pending if session.group == group.name}
    shapes = ShapeCache(group)
    queue = _PackableQueue({}, {})
    placed = [one.session for one in outcome.placements if one.session in sessions]
    for names, into in ((placed, queue.placed), (waiting, queue.waiting)):
        for name in names:
            kind = _request_key(sessions[name], shapes)
            if kind is not None:
                into.setdefault(kind, []).append(sessions[name])
    return queue


def _request_key(session: SessionRequest, shapes: ShapeCache) -> _RequestKey | None:
    """What it asks of one node; None for a gang, for a service's replica, which has its place among the
    others, and for what nodes of equal size can differ in."""
    needs = shapes.of(session).needs
    if session.replica_of is not None:
        return None
    if len(needs) > 1 or session.designated or session.node_selector or session.architectures:
        return None
    return _single_node_key(needs[0], session.gpu_models)


def _single_node_key(need: Need, models: frozenset[str]) -> _RequestKey | None:
    wanted = need.sum
    devices = [*(slot for slot, _ in wanted.whole), *(share.slot for share in wanted.shares)]
    if len(devices) > 1 or wanted.joined or wanted.storage or wanted.pages:
        return None
    gpus, milli = (wanted.whole[0][1], 1000) if wanted.whole else (0, 0)
    if wanted.whole and not wanted.whole[0][0].endswith(DEVICE):
        return None
    if wanted.shares:
        gpus, milli = 1, wanted.shares[0].milli
    if milli > 1000 or (wanted.shares and len(need.demands) > 1):
        return None
    return _RequestKey(1000 * wanted.cores + wanted.milli, wanted.memory, gpus, milli, models)


def _snapshot_without_packed(snapshot: Snapshot, outcome: Outcome, queue: _PackableQueue) -> Snapshot:
    """What the packed sessions find: all that runs, and what starts in this plan and is not packed."""
    packed = {session.id for sessions in queue.placed.values() for session in sessions}
    others = [one for one in outcome.placements if one.session not in packed]
    return _snapshot_with(snapshot, {session.id: session for session in snapshot.pending}, others, ())


def _request_class(kind: _RequestKey, queue: _PackableQueue) -> RequestClass:
    placed = len(queue.placed.get(kind, ()))
    count = placed + len(queue.waiting.get(kind, ()))
    value = request_value(kind.gpus * kind.milli, kind.cpu) + 1
    return RequestClass(kind.cpu, kind.memory, kind.gpus, kind.milli, count, value, kind.models, placed)


def _current_fills(
    nodes: Sequence[list[NodeInfo]], kinds: Sequence[_RequestKey], queue: _PackableQueue, outcome: Outcome
) -> list[tuple[int, Fill, int]]:
    """What the queue has got, node by node: the packing to be improved."""
    kind_of = {one.id: kinds.index(kind) for kind, sessions in queue.placed.items() for one in sessions}
    fills: dict[str, Counter[int]] = {}
    for one in outcome.placements:
        if one.session in kind_of:
            fills.setdefault(one.kernels[0].node, Counter())[kind_of[one.session]] += 1
    return [
        (number, fills[node.name], 1)
        for number, members in enumerate(nodes)
        for node in members
        if node.name in fills
    ]


def _node_classes(table: NodeTable) -> dict[NodeClass, list[NodeInfo]]:
    """Nodes in service by what is free on them; none when the group has devices of several slots."""
    slots = [slot for slot in table.device_rows if slot.endswith(DEVICE)]
    if len(slots) > 1:
        return {}
    found: dict[tuple[int, int, int, str], list[NodeInfo]] = {}
    for at, node in enumerate(table.nodes):
        if node.state == "active":
            free = table.totals[:, at]
            gpus = int(free[table.device_rows[slots[0]].whole]) if slots else 0
            models = sorted({gpu.model for gpu in node.hardware.gpus})
            if len(models) < 2:
                key = (gpus, int(free[MILLI]), int(free[MEMORY]), "".join(models))
                found.setdefault(key, []).append(node)
    return {
        NodeClass(gpus, cpu, memory, len(nodes), model): nodes
        for (gpus, cpu, memory, model), nodes in found.items()
    }


def _node_by_session(
    packing: Packing, nodes: Sequence[list[NodeInfo]], kinds: Sequence[_RequestKey], queue: _PackableQueue
) -> dict[str, str]:
    """Session → node; of each kind those who were placed before come first."""
    left = [iter(each) for each in nodes]
    sessions = [iter((*queue.placed.get(kind, ()), *queue.waiting.get(kind, ()))) for kind in kinds]
    found: dict[str, str] = {}
    for kind, fill, count in packing.fills:
        for _ in range(count):
            node = next(left[kind])
            for which, number in fill.items():
                found.update((next(sessions[which]).id, node.name) for _ in range(number))
    return found


def _place_packing(
    snapshot: Snapshot,
    group: GroupInfo,
    outcome: Outcome,
    node_by_session: dict[str, str],
    place_again: PlaceFunction,
) -> Outcome:
    """Map the packing exactly, then give the rest its turn beside it."""
    requests = {session.id: session for session in snapshot.pending}
    moved = _within_skips(node_by_session, group, outcome)
    fixed = [one for one in outcome.placements if one.session not in moved]
    aimed = tuple(
        replace(session, designated=frozenset({moved[session.id]}))
        for session in snapshot.pending
        if session.id in moved
    )
    packed = place_again(_snapshot_with(snapshot, requests, fixed, aimed)).placements
    before = {one.session for one in outcome.placements}
    if len(packed) + len(fixed) <= len(before) or before - {one.session for one in (*fixed, *packed)}:
        return outcome
    mine = {session.id for session in snapshot.pending if session.group == group.name}
    explained = tuple(_mention_packing(one) for one in packed)
    started = [*fixed, *explained]
    rest = tuple(s for s in snapshot.pending if s.id not in {one.session for one in started})
    last = place_again(_snapshot_with(snapshot, requests, started, rest))
    if any(one.session in mine for one in last.evictions):
        return outcome
    return _merge_outcomes(outcome, last, started)


def _within_skips(node_by_session: dict[str, str], group: GroupInfo, outcome: Outcome) -> dict[str, str]:
    """Where the queue bounds how often its head is passed over, the new ones are the first that wait."""
    if group.queue_options.get("maxSkips") is None:
        return node_by_session
    waits = sorted((wait for wait in outcome.waits if wait.group == group.name), key=lambda one: one.position)
    allowed = {one.session for one in outcome.placements}
    for wait in waits:
        if wait.session not in node_by_session:
            break
        allowed.add(wait.session)
    return {session: node for session, node in node_by_session.items() if session in allowed}


def _snapshot_with(
    snapshot: Snapshot,
    requests: dict[str, SessionRequest],
    started: Sequence[Placement],
    pending: tuple[SessionRequest, ...],
) -> Snapshot:
    running = tuple(Running(requests[one.session], one, snapshot.now) for one in started)
    return replace(snapshot, running=(*snapshot.running, *running), pending=pending)


def _mention_limit(outcome: Outcome, group: GroupInfo) -> Outcome:
    text = (
        f"group {group.name}: packing the whole queue was stopped by its packingTimeLimit of "
        f"{group.packing_time_limit} s; the best that was found until then counts, and a plan made again may "
        "find another"
    )
    return replace(outcome, warnings=tuple(dict.fromkeys((*outcome.warnings, text))))


def _mention_packing(placement: Placement) -> Placement:
    choice = placement.choice
    if choice is None:
        return placement
    detail = "; ".join(filter(None, (choice.detail, "packed with the whole queue")))
    return replace(placement, choice=replace(choice, detail=detail))


def _merge_outcomes(outcome: Outcome, last: Outcome, started: Sequence[Placement]) -> Outcome:
    """The last turn's outcome with what started before it, and use before the plan as it was."""
    return replace(
        last.counted_from(outcome),
        placements=(*started, *last.placements),
        warnings=tuple(dict.fromkeys((*outcome.warnings, *last.warnings))),
    )
