"""Why a group's sessions wait, in words: what holds each back, and what would make room for it first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from planner.admission.reserved_nodes import Reserved
from planner.model import slots
from planner.model.types import GroupInfo, Reason, SessionRequest, Wait
from planner.queue.skips import Skips
from planner.selection.choose import Chooser
from planner.selection.gang import Shape
from planner.waiting import explain
from planner.waiting.forecast import Occupant, Release, forecast
from planner.waiting.turns import Away, Turn, turns


@dataclass(slots=True)
class Kept:
    """A session that was not placed: its reasons, the shape that had no room, and the nodes kept for
    others."""

    session: SessionRequest
    reasons: list[Reason]
    shape: Shape | None = None
    away: Away = ()
    latest: float | None = None
    """When it fits at the latest, where that does not follow from what runs."""


def unexplained(group: GroupInfo, kept: Sequence[Kept], skips: Skips, reserved: Reserved) -> list[Wait]:
    """The waits with what is known without looking at nodes."""
    return [
        _wait(group, position, one, _unique(one, one.reasons, reserved), None, skips)
        for position, one in enumerate(kept, start=1)
    ]


def explained(
    group: GroupInfo,
    chooser: Chooser,
    kept: Sequence[Kept],
    skips: Skips,
    reserved: Reserved,
    possible: Mapping[Shape, bool],
    occupants: Sequence[Occupant],
) -> list[Wait]:
    """The waits, in the order of `kept`, with every reason, and with whose end makes room and when.
    `possible`: whether empty nodes could hold a shape."""
    short = [(one.shape, one.away) for one in kept if one.shape is not None]
    lack = {key: explain.lack_of_room(chooser, key[0], group.name, key[1]) for key in dict.fromkeys(short)}
    waiting = [one for one in kept if one.shape is not None and possible[one.shape]]
    releases, cut = _releases(chooser, waiting, reserved, occupants)
    found = []
    for position, one in enumerate(kept, start=1):
        reasons = [*one.reasons]
        if one.shape is not None:
            reasons = [*lack[one.shape, one.away], *reasons]
        release = releases.get(one.session.id)
        wait = _wait(group, position, one, _unique(one, reasons, reserved), release, skips)
        found.append(replace(wait, cut_short=one.session.id in cut))
    return found


def _releases(
    chooser: Chooser, kept: Sequence[Kept], reserved: Reserved, occupants: Sequence[Occupant]
) -> tuple[dict[str, Release], frozenset[str]]:
    """By session id, whose end makes room for it; and for whom the search was cut short.

    Who has its turn when a session ends that runs now is told of it and of the time. For others it is only
    told what would make room if nobody before them took it.
    """
    turn = [
        Turn(
            one.session,
            one.shape,
            partial(reserved.away_at, one.session),
            (one.session.project, one.session.timeout) if reserved.any else None,
        )
        for one in kept
        if one.shape is not None
    ]
    known = turns(chooser, turn, occupants)
    running = {one.session for one in occupants}
    found = {name: one for name, one in known.found.items() if one.by in running}
    rest = [one for one in turn if one.session.id not in found and one.session.id not in known.cut]
    cut = set(known.cut)
    looks = known.looks
    by_away: dict[Away, list[Turn]] = {}
    for one in rest:
        by_away.setdefault(one.away(None), []).append(one)
    for away, those in sorted(by_away.items()):
        alone = forecast(chooser, list(dict.fromkeys(one.shape for one in those)), occupants, away, looks)
        for one in those:
            release, late = alone.found.get(one.shape), known.found.get(one.session.id)
            if release is not None:
                found[one.session.id] = release._replace(latest=late.latest if late else None)
            elif one.shape in alone.cut:
                cut.add(one.session.id)
    return found, frozenset(cut)


def _unique(kept: Kept, reasons: Sequence[Reason], reserved: Reserved) -> tuple[Reason, ...]:
    more = reserved.reasons(kept.session) if kept.away else ()
    return tuple(dict.fromkeys([*reasons, *more]))


def _wait(
    group: GroupInfo,
    position: int,
    kept: Kept,
    reasons: tuple[Reason, ...],
    release: Release | None,
    skips: Skips,
) -> Wait:
    skipped = skips.count(kept.session)
    return Wait(
        session=kept.session.id,
        group=group.name,
        position=position,
        reasons=reasons,
        freed_by=release.by if release else "",
        latest=release.latest if release else kept.latest,
        passed_over=skipped > kept.session.skips,
        skips=skipped,
    )


def behind(head: SessionRequest, skips: Skips) -> Reason:
    """Why nobody passes the head of a closed queue."""
    if skips.limit == 0:
        return Reason("head-of-line", f"strict order: {head.id} comes first and has no room yet")
    times = slots.plural(skips.count(head), "time")
    return Reason(
        "head-of-line", f"{head.id} comes first and was passed over {times} (maxSkips {skips.limit})"
    )
