"""When each session that waits for room has its turn at the latest: releases are played through, and who
waits takes what becomes free in the order of the queue.

So nobody is promised the room that somebody before it will take. Whoever has been given room that way holds
it until its timeout, or for good without one. Sessions that come later, or that wait for something else than
room, are not foreseen.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from planner.model.node_state import hold_kernel
from planner.model.types import KernelPlacement, SessionRequest
from planner.selection.gang import Shape, allocate, kernel_placements
from planner.selection.node_scorer import NodeScorer
from planner.waiting.forecast import (
    SEARCH_BUDGET,
    TRIAL_COST,
    FreedRoom,
    Occupant,
    Release,
    latest_end,
    release_order,
)

BlockedNodes = tuple[int, ...]


class WaitingSession(NamedTuple):
    """A session that waits for room."""

    session: SessionRequest
    shape: Shape
    blocked_nodes: Callable[[float | None], BlockedNodes]
    """Nodes (indices) that it must stay off if it starts at a time; None: at a time that is not known."""
    kind: Hashable = None
    """Sessions of one shape and kind must stay off the same nodes."""


class QueueForecast(NamedTuple):
    """By session id: the release that brings it its turn; and those for whom the search ended too early."""

    found: Mapping[str, Release]
    cut: frozenset[str]
    budget: int
    """What is left of the search."""


def forecast_queue(
    scorer: NodeScorer, waiting: Sequence[WaitingSession], occupants: Sequence[Occupant]
) -> QueueForecast:
    """When the sessions, in the order of the queue, have room; nothing is changed."""
    mark = scorer.table.checkpoint()
    replay = _QueueReplay(scorer, waiting, occupants)
    replay.run()
    scorer.table.rollback(mark)
    missing = frozenset(one.session.id for lane in replay.lanes.values() for _, one in lane)
    return QueueForecast(replay.found, missing if replay.budget <= 0 else frozenset(), max(0, replay.budget))


_Lane = tuple[Shape, Hashable]
"""Sessions for which the same nodes do at the same time."""


class _QueueReplay:
    """The state of one search. Lanes hold who still waits, the first last."""

    def __init__(
        self, scorer: NodeScorer, waiting: Sequence[WaitingSession], occupants: Sequence[Occupant]
    ) -> None:
        self.scorer, self.budget = scorer, SEARCH_BUDGET
        self.lanes: dict[_Lane, list[tuple[int, WaitingSession]]] = {}
        for at, waiting_session in reversed(list(enumerate(waiting))):
            self.lanes.setdefault((waiting_session.shape, waiting_session.kind), []).append(
                (at, waiting_session)
            )
        self._freed_room = {lane: FreedRoom(scorer, lane[0]) for lane in self.lanes}
        self.found: dict[str, Release] = {}
        self._events = [(release_order(one), one) for one in occupants]
        heapq.heapify(self._events)
        self._ended: set[str] = set()
        self._seated: dict[int, dict[str, list[KernelPlacement]]] = {}

    def run(self) -> None:
        while self._events and self.lanes and self.budget > 0:
            ended = self._next_endings()
            for one in ended:
                self._release(one)
            self._give_room(ended)

    def _next_endings(self) -> list[Occupant]:
        """Those that end next at the latest: all of one time, for they may make room together."""
        ended = [heapq.heappop(self._events)[1]]
        while self._events and ended[0].ends is not None and self._events[0][1].ends == ended[0].ends:
            ended.append(heapq.heappop(self._events)[1])
        return ended

    def _release(self, occupant: Occupant) -> None:
        """Take a session off its nodes; who was given room there meanwhile stays."""
        table = self.scorer.table
        self._ended.add(occupant.session)
        for at in occupant.nodes:
            seated = self._seated.get(at, {})
            seated.pop(occupant.session, None)
            state = table.state_without(at, self._ended)
            for kernel in (one for kernels in seated.values() for one in kernels):
                state, _ = hold_kernel(table.topologies[at], state, kernel)
            table.set_state(at, state)

    def _give_room(self, ended: Sequence[Occupant]) -> None:
        """Give what is free now to who waits, in the order of the queue; a lane whose first has no room is
        through."""
        freed = tuple(dict.fromkeys(at for one in ended for at in one.nodes))
        self.budget -= len(self.lanes)
        first = [
            (waiting[-1][0], lane)
            for lane, waiting in self.lanes.items()
            if self._freed_room[lane].may_do(freed)
        ]
        heap = [(at, number) for number, (at, _) in enumerate(first)]
        heapq.heapify(heap)
        while heap and self.budget > 0:
            _, number = heapq.heappop(heap)
            lane = first[number][1]
            self.budget -= TRIAL_COST
            if not self._try_allocate(self.lanes[lane][-1][1], ended):
                continue
            self.lanes[lane].pop()
            if self.lanes[lane]:
                heapq.heappush(heap, (self.lanes[lane][-1][0], number))
            else:
                del self.lanes[lane]

    def _try_allocate(self, waiting_session: WaitingSession, ended: Sequence[Occupant]) -> bool:
        mark = self.scorer.table.checkpoint()
        chosen = allocate(self.scorer, waiting_session.shape, waiting_session.blocked_nodes(ended[-1].ends))
        if chosen is None:
            self.scorer.table.rollback(mark)
            return False
        nodes = tuple(one.node for one in chosen)
        session = waiting_session.session
        for at, kernels in zip(nodes, kernel_placements(self.scorer, session, chosen), strict=True):
            self._seated.setdefault(at, {})[session.id] = kernels
        last = next((one for one in reversed(ended) if not set(nodes).isdisjoint(one.nodes)), ended[-1])
        self.found[session.id] = Release(last.session, last.ends, nodes)
        known = last.ends is not None and session.timeout is not None
        ends = latest_end(last.ends or 0.0, session.timeout or 0.0) if known else None
        if ends is not None:
            after = Occupant(session.id, ends, nodes)
            heapq.heappush(self._events, (release_order(after), after))
        return True
