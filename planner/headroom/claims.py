"""A replica takes a place that is held for its service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from planner.headroom.held_places import HeldPlaces
from planner.model.types import Placement, Running, SessionRequest
from planner.selection.gang import Shape
from planner.waiting.preemption import Preemptor, Victims, victims_cost


class ClaimedShape(NamedTuple):
    """What a replica needs, and the nodes (indices) that are kept from it."""

    shape: Shape
    blocked: tuple[int, ...]


def claim_place(
    held: HeldPlaces,
    lender: Preemptor,
    session: SessionRequest,
    claimed: ClaimedShape,
    running: Sequence[Running],
    attempt: Callable[[], Placement | None],
) -> tuple[Placement | None, Victims]:
    """Give up one held place for the session: where it is then, as `attempt` places it, or who has to go
    before it is tried again. Neither, and nothing is changed, where no place will do.

    A place that nobody has to leave comes before all others; of those, the one with the cheapest victims.
    """
    cheapest: tuple[Running, Victims] | None = None
    for place in held.of(session.replica_of.service) if session.replica_of is not None else ():
        held.drop(place)
        if held.has_quota(session):
            if (placement := attempt()) is not None:
                return placement, ()
            lent_to = held.borrowers(place, running)
            victims = lender.victims_for_room(claimed.shape, lent_to, claimed.blocked) if lent_to else None
            if victims and (cheapest is None or victims_cost(victims) < victims_cost(cheapest[1])):
                cheapest = place, victims
        held.put_back(place)
    if cheapest is None:
        return None, ()
    held.drop(cheapest[0])
    return None, cheapest[1]
