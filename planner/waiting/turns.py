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

from planner.model.node_state import hold
from planner.model.types import KernelPlacement, SessionRequest
from planner.selection.choose import Chooser
from planner.selection.gang import Shape, placed_kernels, seat
from planner.waiting.forecast import LOOKS, TRIAL, Occupant, Release, ends_at, may_fit, order

Away = tuple[int, ...]


class Turn(NamedTuple):
    """A session that waits for room."""

    session: SessionRequest
    shape: Shape
    away: Callable[[float | None], Away]
    """Nodes (indices) that it must stay off if it starts at a time; None: at a time that is not known."""
    kind: Hashable = None
    """Sessions of one shape and kind must stay off the same nodes."""


class Turns(NamedTuple):
    """By session id: the release that brings it its turn; and those for whom the search ended too early."""

    found: Mapping[str, Release]
    cut: frozenset[str]
    looks: int
    """What is left of the search."""


def turns(chooser: Chooser, waiting: Sequence[Turn], occupants: Sequence[Occupant]) -> Turns:
    """When the sessions, in the order of the queue, have room; nothing is changed."""
    mark = chooser.world.checkpoint()
    play = _Play(chooser, waiting, occupants)
    play.run()
    chooser.world.rollback(mark)
    missing = frozenset(one.session.id for lane in play.lanes.values() for _, one in lane)
    return Turns(play.found, missing if play.looks <= 0 else frozenset(), max(0, play.looks))


_Lane = tuple[Shape, Hashable]
"""Sessions for which the same nodes do at the same time."""


class _Play:
    """The state of one search. Lanes hold who still waits, the first last."""

    def __init__(self, chooser: Chooser, waiting: Sequence[Turn], occupants: Sequence[Occupant]) -> None:
        self.chooser, self.looks = chooser, LOOKS
        self.lanes: dict[_Lane, list[tuple[int, Turn]]] = {}
        for at, turn in reversed(list(enumerate(waiting))):
            self.lanes.setdefault((turn.shape, turn.kind), []).append((at, turn))
        self.found: dict[str, Release] = {}
        self._events = [(order(one), one) for one in occupants]
        heapq.heapify(self._events)
        self._gone: set[str] = set()
        self._seated: dict[int, dict[str, list[KernelPlacement]]] = {}

    def run(self) -> None:
        while self._events and self.lanes and self.looks > 0:
            ended = self._next()
            for one in ended:
                self._release(one)
            self._seat(ended)

    def _next(self) -> list[Occupant]:
        """Those that end next at the latest: all of one time, for they may make room together."""
        ended = [heapq.heappop(self._events)[1]]
        while self._events and ended[0].ends is not None and self._events[0][1].ends == ended[0].ends:
            ended.append(heapq.heappop(self._events)[1])
        return ended

    def _release(self, occupant: Occupant) -> None:
        """Take a session off its nodes; who was given room there meanwhile stays."""
        world = self.chooser.world
        self._gone.add(occupant.session)
        for at in occupant.nodes:
            seated = self._seated.get(at, {})
            seated.pop(occupant.session, None)
            state = world.state_without(at, self._gone)
            for kernel in (one for kernels in seated.values() for one in kernels):
                state, _ = hold(world.topologies[at], state, kernel)
            world.change(at, state)

    def _seat(self, ended: Sequence[Occupant]) -> None:
        """Give what is free now to who waits, in the order of the queue; a lane whose first has no room is
        through."""
        freed = tuple(dict.fromkeys(at for one in ended for at in one.nodes))
        self.looks -= len(self.lanes)
        first = [
            (waiting[-1][0], lane)
            for lane, waiting in self.lanes.items()
            if may_fit(self.chooser, lane[0], freed)
        ]
        heap = [(at, number) for number, (at, _) in enumerate(first)]
        heapq.heapify(heap)
        while heap and self.looks > 0:
            _, number = heapq.heappop(heap)
            lane = first[number][1]
            self.looks -= TRIAL
            if not self._try(self.lanes[lane][-1][1], ended):
                continue
            self.lanes[lane].pop()
            if self.lanes[lane]:
                heapq.heappush(heap, (self.lanes[lane][-1][0], number))
            else:
                del self.lanes[lane]

    def _try(self, turn: Turn, ended: Sequence[Occupant]) -> bool:
        mark = self.chooser.world.checkpoint()
        chosen = seat(self.chooser, turn.shape, turn.away(ended[-1].ends))
        if chosen is None:
            self.chooser.world.rollback(mark)
            return False
        nodes = tuple(one.node for one in chosen)
        session = turn.session
        for at, kernels in zip(nodes, placed_kernels(self.chooser, session, chosen), strict=True):
            self._seated.setdefault(at, {})[session.id] = kernels
        last = next((one for one in reversed(ended) if not set(nodes).isdisjoint(one.nodes)), ended[-1])
        self.found[session.id] = Release(last.session, last.ends, nodes)
        known = last.ends is not None and session.timeout is not None
        ends = ends_at(last.ends or 0.0, session.timeout or 0.0) if known else None
        if ends is not None:
            after = Occupant(session.id, ends, nodes)
            heapq.heappush(self._events, (order(after), after))
        return True
