"""How close each node of a group comes to a session that waits: what each lacks, the nearest first.

The same filters and amounts that decide where sessions go decide here, on the nodes as the plan leaves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from planner.admission.reserved_nodes import NodeReservations
from planner.devices.mapping import Mapping as Mapped
from planner.model.plan_time import PlanTime
from planner.model.types import GroupInfo, Reason, SessionRequest, Snapshot
from planner.model.unhealthy_devices import unhealthy_sentences
from planner.selection.base import Need
from planner.selection.concentrated import Concentrated
from planner.selection.from_snapshot import build_group_table
from planner.selection.gang import ShapeCache
from planner.selection.need_mapping import map_need
from planner.selection.node_admission import refusals
from planner.selection.node_scorer import NodeScorer
from planner.waiting.explain import WantedResource, demand_text, unmappable_text, wanted_resources

Verdict = Literal["room", "short", "closed", "too-small", "unfit"]
"""`room`: it could take the session now; `short`: not while others are there; `closed`: cordoned, drained or
kept for others; `too-small`: not even empty; `unfit`: other name, model or labels than asked."""
_TEMPORARY = frozenset({"state", "reservation"})
"""Codes of what closes a node for a time only."""
_ORDER: dict[Verdict, int] = {"room": 0, "short": 1, "closed": 1, "too-small": 2, "unfit": 3}


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One thing that a node lacks. `needed` and `has` in the slot's smallest unit (cores where they are
    exclusive); both 0 where no amount is meant."""

    code: str
    message: str
    needed: int = 0
    has: int = 0


@dataclass(frozen=True, slots=True)
class NodeFit:
    """One node, seen by a session that waits."""

    node: str
    verdict: Verdict
    lacks: tuple[Shortfall, ...] = ()
    note: str = ""
    """For a node with room: over how many NUMA nodes it would go, when that is more than on the empty
    node."""
    holders: tuple[str, ...] = ()
    """Sessions on the node."""


@dataclass(frozen=True, slots=True)
class NeedFit:
    """One node's worth of a session: what it is in words, on how many nodes it is needed, and all nodes of
    the group, the nearest first."""

    words: str
    count: int
    nodes: tuple[NodeFit, ...]


def rank_nodes(snapshot: Snapshot, group: GroupInfo, session: SessionRequest) -> tuple[NeedFit, ...]:
    """How close the group's nodes come, once for each distinct need of the session."""
    table = build_group_table(snapshot, group)
    scorer = NodeScorer(table, group.selection, Concentrated(group, table))
    reserved = NodeReservations(group, table, PlanTime(snapshot.now))
    closed = {node.name: reserved.reasons_on_node(session, node.name) for node in table.nodes}
    needs = ShapeCache(group).of(session).needs
    return tuple(
        NeedFit(demand_text(need.sum), needs.count(need), _fits_of_need(scorer, need, closed))
        for need in dict.fromkeys(needs)
    )


def _fits_of_need(
    scorer: NodeScorer, need: Need, kept: Mapping[str, tuple[Reason, ...]]
) -> tuple[NodeFit, ...]:
    table = scorer.table
    free = wanted_resources(table, need.sum, table.totals)
    most = wanted_resources(table, need.sum, table.capacity)
    views = [_fit_of_node(scorer, need, at, kept, free, most) for at in range(len(table.nodes))]
    return tuple(sorted(views, key=_nearest_first))


def _fit_of_node(
    scorer: NodeScorer,
    need: Need,
    at: int,
    kept: Mapping[str, tuple[Reason, ...]],
    free: list[WantedResource],
    most: list[WantedResource],
) -> NodeFit:
    table = scorer.table
    node = table.nodes[at]
    closed = [Shortfall(one.code, one.message) for one in (*refusals(node, need.filter), *kept[node.name])]
    short = list(_missing_amounts(at, free, most))
    if short and need.sum.wants_devices:
        short += [Shortfall("unhealthy", sentence) for sentence in unhealthy_sentences(node)]
    mapped = None if short else map_need(scorer.table, at, need, table.states[at])
    if not short and mapped is None:
        short = [Shortfall("devices", unmappable_text(need.sum))]
    note = _numa_note(scorer, need, at, mapped[0]) if mapped else ""
    return NodeFit(
        node=node.name,
        verdict=_verdict(at, closed, short, most),
        lacks=(*closed, *short),
        note=note,
        holders=tuple(
            dict.fromkeys([*(session for session, _ in table.residents[at]), *table.held_at([at])])
        ),
    )


def _numa_note(scorer: NodeScorer, need: Need, at: int, mappings: tuple[Mapped, ...]) -> str:
    if need.sum.numa != "prefer-single-node":
        return ""
    domains = max(len(mapping.domains) for mapping in mappings)
    empty = map_need(scorer.table, at, need, scorer.table.empty_states[at])
    fewest = max(len(mapping.domains) for mapping in empty[0]) if empty else domains
    return f"free only over {domains} NUMA nodes" if domains > fewest else ""


def _missing_amounts(at: int, free: list[WantedResource], most: list[WantedResource]) -> Iterator[Shortfall]:
    for now, empty in zip(free, most, strict=True):
        has, whole = int(now.values[at]), int(empty.values[at])
        if has >= now.needed:
            continue
        if whole < now.needed:
            message = f"has {empty.unit(whole)}, needs {now.unit(now.needed)}"
            yield Shortfall(now.kind, message, now.needed, whole)
            continue
        message = f"{now.unit(now.needed - has)} short: {now.unit(has)} free of {empty.unit(whole)}"
        yield Shortfall(now.kind, message, now.needed, has)


def _verdict(at: int, closed: list[Shortfall], short: list[Shortfall], most: list[WantedResource]) -> Verdict:
    if any(lack.code not in _TEMPORARY for lack in closed):
        return "unfit"
    if any(int(one.values[at]) < one.needed for one in most):
        return "too-small"
    if closed:
        return "closed"
    return "short" if short else "room"


def _nearest_first(view: NodeFit) -> tuple[int, int, int, str]:
    """Fewest things missing first, then the least part of them."""
    missing = sum(1000 * (one.needed - one.has) // one.needed if one.needed else 100 for one in view.lacks)
    return _ORDER[view.verdict], len(view.lacks), missing, view.node
