"""What would free a place for a waiting session, if nobody else waited: the releases are played through on
the snapshot.

Sessions are released in the order in which they end at the latest (start plus timeout; those without a
timeout after all others). The search is bounded by the number of times that a shape is looked at, not by
time, so that it is deterministic; what is not found by then has no forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from planner.model.demand import Demand
from planner.model.plan_time import PlanTime
from planner.model.types import Running, SessionRequest
from planner.nodes.feasibility import fits
from planner.nodes.node_table import Bools, NodeTable
from planner.selection.gang import Shape, allocate
from planner.selection.node_scorer import NodeScorer

SEARCH_BUDGET = 50_000
TRIAL_COST = 10
"""Looks that a trial on all nodes counts for; whether the nodes just freed will do is one."""

LAST = 253_402_300_800.0
"""The year 10000, in seconds since the epoch."""


class Occupant(NamedTuple):
    """A session that holds nodes (indices); `ends` is None without a timeout."""

    session: str
    ends: float | None
    nodes: tuple[int, ...]


class Release(NamedTuple):
    """The session whose end makes room, and when that is at the latest (None: it has no timeout)."""

    by: str
    latest: float | None
    nodes: tuple[int, ...]
    """Where it would go then (indices)."""


class Forecast(NamedTuple):
    """What is `found`, by shape; `cut`: those for which the search ended before all was played through."""

    found: Mapping[Shape, Release]
    cut: frozenset[Shape]


def latest_end(starts: float, timeout: float) -> float | None:
    """When it ends at the latest; None where no calendar reaches that far, which is as good as never."""
    ends = starts + timeout
    return ends if ends < LAST else None


def occupants(
    table: NodeTable, running: Sequence[Running], started: Mapping[str, SessionRequest], time: PlanTime
) -> list[Occupant]:
    """Every session on the table's nodes. `started`: those that start now, by id."""
    requests = {one.request.id: (one.request, one.started) for one in running}
    requests.update({name: (session, None) for name, session in started.items()})
    nodes: dict[str, dict[int, None]] = {}
    for at, residents in enumerate(table.residents):
        for session, _ in residents:
            nodes.setdefault(session, {})[at] = None
    found = []
    for session, where in nodes.items():
        request, since = requests.get(session, (None, None))
        ends = None
        if request is not None and request.timeout is not None:
            ends = latest_end(time.exactly() if since is None else since, request.timeout)
            ends = time.exactly() if ends is not None and time.passed(ends) else ends
        found.append(Occupant(session, ends, tuple(where)))
    return found


def forecast(
    scorer: NodeScorer,
    shapes: Sequence[Shape],
    occupants: Sequence[Occupant],
    excluded: tuple[int, ...] = (),
    budget: int = SEARCH_BUDGET,
) -> Forecast:
    """For each shape that has no room now off the excluded nodes, the first release after which it has."""
    table = scorer.table
    found: dict[Shape, Release] = {}
    open_shapes = {shape: FreedRoom(scorer, shape) for shape in shapes}
    gone: set[str] = set()
    mark = table.checkpoint()
    cut: frozenset[Shape] = frozenset()
    for occupant in sorted(occupants, key=release_order):
        if budget <= 0:
            cut = frozenset(open_shapes)
        if not open_shapes or cut:
            break
        gone.add(occupant.session)
        for at in occupant.nodes:
            table.set_state(at, table.state_without(at, gone))
        for shape in tuple(open_shapes):
            budget -= 1
            if not open_shapes[shape].may_do(occupant.nodes):
                continue
            budget -= TRIAL_COST
            nodes = _nodes_with_room(scorer, shape, excluded)
            if nodes is not None:
                found[shape] = Release(occupant.session, occupant.ends, nodes)
                del open_shapes[shape]
    table.rollback(mark)
    return Forecast(found, cut)


class FreedRoom:
    """Whether one of a shape's needs would do with one of the nodes just freed: else nothing has changed for
    it. What fits a node follows from its hardware and state, so that each of these is looked at once."""

    def __init__(self, scorer: NodeScorer, shape: Shape) -> None:
        self._table = scorer.table
        self._needs: list[tuple[Demand, Bools, dict[int, bool]]] = [
            (need.sum, scorer.admitted(need.filter), {}) for need in dict.fromkeys(shape.needs)
        ]

    def may_do(self, freed: tuple[int, ...]) -> bool:
        numbers = self._table.state_numbers
        return any(
            admitted[at] and self._fits(demand, at, numbers[at], known)
            for demand, admitted, known in self._needs
            for at in freed
        )

    def _fits(self, demand: Demand, at: int, number: int, known: dict[int, bool]) -> bool:
        found = known.get(number)
        if found is None:
            nodes = np.array([at], dtype=np.intp)
            found = known[number] = bool(fits(self._table, demand, nodes)[0])
        return found


def _nodes_with_room(
    scorer: NodeScorer, shape: Shape, excluded: tuple[int, ...] = ()
) -> tuple[int, ...] | None:
    """Where the shape would go now off the excluded nodes; nothing is changed."""
    mark = scorer.table.checkpoint()
    seated = allocate(scorer, shape, excluded)
    scorer.table.rollback(mark)
    return None if seated is None else tuple(one.node for one in seated)


def release_order(occupant: Occupant) -> tuple[bool, float, str]:
    """Who ends first at the latest; those without a timeout after all others."""
    return (occupant.ends is None, occupant.ends or 0.0, occupant.session)
