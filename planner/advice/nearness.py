"""How close each node of a group comes to a session that waits: what each lacks, the nearest first.

The same filters and amounts that decide where sessions go decide here, on the world as the plan leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from planner.admission.reserved_nodes import Reserved
from planner.devices.mapping import Mapping as Mapped
from planner.model.types import GroupInfo, Reason, SessionRequest, Snapshot
from planner.model.unfit_devices import sentences
from planner.selection.base import Need
from planner.selection.choose import Chooser
from planner.selection.concentrated import Concentrated
from planner.selection.gang import Shapes
from planner.selection.node_admission import refusals
from planner.selection.worlds import group_world
from planner.waiting.explain import Wanted, demand_words, resources, unmappable

Verdict = Literal["room", "short", "closed", "too-small", "unfit"]
"""`room`: it could take the session now; `short`: not while others are there; `closed`: cordoned, drained or
kept for others; `too-small`: not even empty; `unfit`: other name, model or labels than asked."""
_OPENS = frozenset({"state", "reservation"})
"""Codes of what closes a node for a time only."""
_ORDER: dict[Verdict, int] = {"room": 0, "short": 1, "closed": 1, "too-small": 2, "unfit": 3}


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that a node lacks. `needed` and `has` in the slot's smallest unit (cores where they are
    exclusive); both 0 where no amount is meant."""

    code: str
    message: str
    needed: int = 0
    has: int = 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node, seen by a session that waits."""

    node: str
    verdict: Verdict
    lacks: tuple[Lack, ...] = ()
    note: str = ""
    """For a node with room: over how many NUMA nodes it would go, when that is more than on the empty
    node."""
    holders: tuple[str, ...] = ()
    """Sessions on the node."""


@dataclass(frozen=True, slots=True)
class NeedView:
    """One node's worth of a session: what it is in words, on how many nodes it is needed, and all nodes of
    the group, the nearest first."""

    words: str
    count: int
    nodes: tuple[NodeView, ...]


def near_nodes(snapshot: Snapshot, group: GroupInfo, session: SessionRequest) -> tuple[NeedView, ...]:
    """How close the group's nodes come, once for each distinct need of the session."""
    world = group_world(snapshot, group)
    chooser = Chooser(world, group.selection, Concentrated(group, world))
    reserved = Reserved(group, world, snapshot.now)
    closed = {node.name: reserved.closed(session, node.name) for node in world.nodes}
    needs = Shapes(group).of(session).needs
    return tuple(
        NeedView(demand_words(need.sum), needs.count(need), _views(chooser, need, closed))
        for need in dict.fromkeys(needs)
    )


def _views(chooser: Chooser, need: Need, kept: Mapping[str, tuple[Reason, ...]]) -> tuple[NodeView, ...]:
    world = chooser.world
    free = resources(world, need.sum, world.totals)
    most = resources(world, need.sum, world.capacity)
    views = [_view(chooser, need, at, kept, free, most) for at in range(len(world.nodes))]
    return tuple(sorted(views, key=_distance))


def _view(
    chooser: Chooser,
    need: Need,
    at: int,
    kept: Mapping[str, tuple[Reason, ...]],
    free: list[Wanted],
    most: list[Wanted],
) -> NodeView:
    world = chooser.world
    node = world.nodes[at]
    closed = [Lack(one.code, one.message) for one in (*refusals(node, need.filter), *kept[node.name])]
    short = list(_short(at, free, most))
    if short and need.sum.wants_devices:
        short += [Lack("unhealthy", sentence) for sentence in sentences(node)]
    mapped = None if short else chooser.map(at, need, world.states[at])
    if not short and mapped is None:
        short = [Lack("devices", unmappable(need.sum))]
    note = _apart(chooser, need, at, mapped[0]) if mapped else ""
    return NodeView(
        node=node.name,
        verdict=_verdict(at, closed, short, most),
        lacks=(*closed, *short),
        note=note,
        holders=tuple(dict.fromkeys(session for session, _ in world.residents[at])),
    )


def _apart(chooser: Chooser, need: Need, at: int, mappings: tuple[Mapped, ...]) -> str:
    if need.sum.numa != "prefer-single-node":
        return ""
    domains = max(len(mapping.domains) for mapping in mappings)
    empty = chooser.map(at, need, chooser.world.base[at])
    fewest = max(len(mapping.domains) for mapping in empty[0]) if empty else domains
    return f"free only over {domains} NUMA nodes" if domains > fewest else ""


def _short(at: int, free: list[Wanted], most: list[Wanted]) -> Iterator[Lack]:
    for now, empty in zip(free, most, strict=True):
        has, whole = int(now.values[at]), int(empty.values[at])
        if has >= now.needed:
            continue
        if whole < now.needed:
            message = f"has {empty.unit(whole)}, needs {now.unit(now.needed)}"
            yield Lack(now.kind, message, now.needed, whole)
            continue
        message = f"{now.unit(now.needed - has)} short: {now.unit(has)} free of {empty.unit(whole)}"
        yield Lack(now.kind, message, now.needed, has)


def _verdict(at: int, closed: list[Lack], short: list[Lack], most: list[Wanted]) -> Verdict:
    if any(lack.code not in _OPENS for lack in closed):
        return "unfit"
    if any(int(one.values[at]) < one.needed for one in most):
        return "too-small"
    if closed:
        return "closed"
    return "short" if short else "room"


def _distance(view: NodeView) -> tuple[int, int, int, str]:
    """Fewest things missing first, then the least part of them."""
    missing = sum(1000 * (one.needed - one.has) // one.needed if one.needed else 100 for one in view.lacks)
    return _ORDER[view.verdict], len(view.lacks), missing, view.node
