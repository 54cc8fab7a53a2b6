"""Why a group's sessions wait, in words: what holds each back, and what would make room for it first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from planner.admission.reserved_nodes import NodeReservations
from planner.model import slots
from planner.model.types import GroupInfo, Reason, SessionRequest, Wait
from planner.queue.skips import SkipCounter
from planner.selection.gang import Shape
from planner.selection.node_scorer import NodeScorer
from planner.waiting import explain
from planner.waiting.forecast import Occupant, Release, forecast
from planner.waiting.queue_forecast import BlockedNodes, WaitingSession, forecast_queue


@dataclass(slots=True)
class UnplacedSession:
    """A session that was not placed: its reasons, the shape that had no room, and the nodes kept for
    others."""

    session: SessionRequest
    reasons: list[Reason]
    shape: Shape | None = None
    blocked_nodes: BlockedNodes = ()
    latest: float | None = None
    """When it fits at the latest, where that does not follow from what runs."""


def unexplained_waits(
    group: GroupInfo, unplaced: Sequence[UnplacedSession], skips: SkipCounter, reserved: NodeReservations
) -> list[Wait]:
    """The waits with what is known without looking at nodes."""
    return [
        _make_wait(group, position, one, _distinct_reasons(one, one.reasons, reserved), skips)
        for position, one in enumerate(unplaced, start=1)
    ]


def explained_waits(
    group: GroupInfo,
    scorer: NodeScorer,
    unplaced: Sequence[UnplacedSession],
    skips: SkipCounter,
    reserved: NodeReservations,
    possible: Mapping[Shape, bool],
    occupants: Sequence[Occupant],
) -> list[Wait]:
    """The waits, in the order of `unplaced`, with every reason, and with whose end makes room and when.
    `possible`: whether empty nodes could hold a shape."""
    short = [(one.shape, one.blocked_nodes) for one in unplaced if one.shape is not None]
    lack = {key: explain.no_room_reasons(scorer, key[0], group.name, key[1]) for key in dict.fromkeys(short)}
    waiting = [one for one in unplaced if one.shape is not None and possible[one.shape]]
    releases, cut = _forecast_releases(scorer, waiting, reserved, occupants)
    found = []
    alike = {key: tuple(dict.fromkeys(reasons)) for key, reasons in lack.items()}
    for position, one in enumerate(unplaced, start=1):
        if one.shape is not None and not one.reasons and not one.blocked_nodes:
            said = alike[one.shape, ()]
        else:
            more = lack[one.shape, one.blocked_nodes] if one.shape is not None else ()
            said = _distinct_reasons(one, [*more, *one.reasons], reserved)
        foreseen = (releases.get(one.session.id), one.session.id in cut)
        found.append(_make_wait(group, position, one, said, skips, foreseen))
    return found


def _forecast_releases(
    scorer: NodeScorer,
    unplaced: Sequence[UnplacedSession],
    reserved: NodeReservations,
    occupants: Sequence[Occupant],
) -> tuple[dict[str, Release], frozenset[str]]:
    """By session id, whose end makes room for it; and for whom the search was cut short.

    Who has its turn when a session ends that runs now is told of it and of the time. For others it is only
    told what would make room if nobody before them took it.
    """
    waiting_sessions = [
        WaitingSession(
            one.session,
            one.shape,
            partial(reserved.blocked_nodes_at, one.session) if reserved.has_any else _nowhere,
            (one.session.project, one.session.timeout) if reserved.has_any else None,
        )
        for one in unplaced
        if one.shape is not None
    ]
    known = forecast_queue(scorer, waiting_sessions, occupants)
    running = {one.session for one in occupants}
    found = {name: one for name, one in known.found.items() if one.by in running}
    rest = [
        one for one in waiting_sessions if one.session.id not in found and one.session.id not in known.cut
    ]
    cut = set(known.cut)
    budget = known.budget
    by_blocked_nodes: dict[BlockedNodes, list[WaitingSession]] = {}
    for one in rest:
        by_blocked_nodes.setdefault(one.blocked_nodes(None), []).append(one)
    for blocked_nodes, those in sorted(by_blocked_nodes.items()):
        alone = forecast(
            scorer, list(dict.fromkeys(one.shape for one in those)), occupants, blocked_nodes, budget
        )
        for one in those:
            release, late = alone.found.get(one.shape), known.found.get(one.session.id)
            if release is not None:
                found[one.session.id] = release._replace(latest=late.latest if late else None)
            elif one.shape in alone.cut:
                cut.add(one.session.id)
    return found, frozenset(cut)


def _nowhere(time: float | None) -> BlockedNodes:
    return ()


def _distinct_reasons(
    unplaced: UnplacedSession, reasons: Sequence[Reason], reserved: NodeReservations
) -> tuple[Reason, ...]:
    more = reserved.reasons(unplaced.session) if unplaced.blocked_nodes else ()
    return tuple(dict.fromkeys([*reasons, *more]))


def _make_wait(
    group: GroupInfo,
    position: int,
    unplaced: UnplacedSession,
    reasons: tuple[Reason, ...],
    skips: SkipCounter,
    foreseen: tuple[Release | None, bool] = (None, False),
) -> Wait:
    """`foreseen`: what makes room for it, and whether the search for that was cut short."""
    release, cut = foreseen
    skipped = skips.count(unplaced.session)
    return Wait(
        session=unplaced.session.id,
        group=group.name,
        position=position,
        reasons=reasons,
        freed_by=release.by if release else "",
        latest=release.latest if release else unplaced.latest,
        cut_short=cut,
        passed_over=skipped > unplaced.session.skips,
        skips=skipped,
    )


def head_of_line_reason(head: SessionRequest, skips: SkipCounter) -> Reason:
    """Why nobody passes the head of a closed queue."""
    if skips.limit == 0:
        return Reason("head-of-line", f"strict order: {head.id} comes first and has no room yet")
    times = slots.plural(skips.count(head), "time")
    return Reason(
        "head-of-line", f"{head.id} comes first and was passed over {times} (maxSkips {skips.limit})"
    )
