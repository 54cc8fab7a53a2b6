"""A place kept for the head of a queue while others go on (EASY backfill, Lifka 1995).

The reservation says when the head can start at the latest and on which nodes. A later session may start now
when it is over by then, or
when it stays off those nodes: either way the head is not delayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planner.model.plan_time import PlanTime
from planner.model.types import SessionRequest
from planner.selection.gang import Shape
from planner.selection.node_scorer import NodeScorer
from planner.waiting.forecast import Occupant, forecast


class HeadReservation(NamedTuple):
    """`nodes`: indices; `start`: the latest time at which they are free, None when a session there has no
    timeout.
    """

    session: str
    nodes: tuple[int, ...]
    start: float | None

    def over(self, session: SessionRequest, time: PlanTime) -> bool:
        """Whether this later session ends before the head can start."""
        if session.timeout is None or self.start is None:
            return False
        return not time.after(self.start - session.timeout)

    def excluded(self, session: SessionRequest, time: PlanTime) -> tuple[int, ...]:
        """Nodes that this later session must stay off."""
        return () if self.over(session, time) else self.nodes


def reserve_for_head(
    scorer: NodeScorer,
    head: SessionRequest,
    shape: Shape,
    occupants: Sequence[Occupant],
    excluded: tuple[int, ...] = (),
) -> HeadReservation | None:
    """The earliest place for the head off the excluded nodes, by the timeouts of what runs; None when no
    release makes room.
    """
    found = forecast(scorer, (shape,), occupants, excluded).found.get(shape)
    return HeadReservation(head.id, found.nodes, found.latest) if found else None
