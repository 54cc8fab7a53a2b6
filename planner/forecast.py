"""When a waiting session fits at the latest, and what would free its place: the releases are played through
on the snapshot.

Sessions are released in the order in which they end at the latest (start plus timeout; those without a
timeout after all others). The
search is bounded by a number of trials, not by time, so that it is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from planner.gang import Shape, seat
from planner.selection.choose import Chooser

TRIALS = 2_000


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


def forecast(
    chooser: Chooser,
    shapes: Sequence[Shape],
    occupants: Sequence[Occupant],
    excluded: tuple[int, ...] = (),
) -> Mapping[Shape, Release]:
    """For each shape that has no room now off the excluded nodes, the first release after which it has.
    Shapes not found are missing.
    """
    world = chooser.world
    found: dict[Shape, Release] = {}
    open_ = list(shapes)
    gone: set[str] = set()
    trials = TRIALS
    mark = world.checkpoint()
    for occupant in sorted(occupants, key=_order):
        if not open_ or trials <= 0:
            break
        gone.add(occupant.session)
        for at in occupant.nodes:
            world.change(at, world.state_without(at, gone))
        trials -= len(open_)
        for shape in tuple(open_):
            nodes = _room(chooser, shape, excluded)
            if nodes is not None:
                found[shape] = Release(occupant.session, occupant.ends, nodes)
                open_.remove(shape)
    world.rollback(mark)
    return found


def _room(chooser: Chooser, shape: Shape, excluded: tuple[int, ...] = ()) -> tuple[int, ...] | None:
    """Where the shape would go now off the excluded nodes; nothing is changed."""
    mark = chooser.world.checkpoint()
    seated = seat(chooser, shape, excluded)
    chooser.world.rollback(mark)
    return None if seated is None else tuple(one.node for one in seated)


def _order(occupant: Occupant) -> tuple[bool, float, str]:
    return (occupant.ends is None, occupant.ends or 0.0, occupant.session)
