"""The phases that a session went through, as a line in proportion to their time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bai.render.humanize import duration
from reconciler.values.session_phase import ENDED

if TYPE_CHECKING:
    from bai.web.panel.views.event_rows import EventRow

LENGTH = 1000
"""Of the line, in units of its drawing."""
_SHORTEST = 4
"""What is drawn of a moment."""


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """One phase from `x` on."""

    phase: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """`times`: each phase that took any, once, with all of its time in words."""

    spans: tuple[PhaseSpan, ...] = ()
    times: tuple[tuple[str, str], ...] = ()


def phase_line(events: Sequence[EventRow], now: float) -> PhaseLine:
    """`events`: the newest first; of a phase that goes on, the time until `now` counts."""
    found = list[tuple[str, float, float]]()
    for each in reversed(events):
        at = _seconds(each.at)
        if at is None:
            continue
        if found:
            phase, since, _ = found[-1]
            found[-1] = phase, since, max(since, at)
        if each.after and not (found and found[-1][0] == each.after):
            found.append((each.after, at, at))
    if found and events[0].after and found[-1][0] not in ENDED:
        phase, since, until = found[-1]
        found[-1] = phase, since, max(until, now)
    if not found or found[-1][2] <= found[0][1]:
        return PhaseLine()
    return _drawn(found)


def _drawn(found: Sequence[tuple[str, float, float]]) -> PhaseLine:
    start, length = found[0][1], found[-1][2] - found[0][1]
    spans, times = list[PhaseSpan](), dict[str, float]()
    for phase, since, until in found:
        x = min(LENGTH - _SHORTEST, round(LENGTH * (since - start) / length))
        width = min(LENGTH - x, max(_SHORTEST, round(LENGTH * (until - since) / length)))
        spans.append(PhaseSpan(phase, x, width))
        times[phase] = times.get(phase, 0.0) + until - since
    return PhaseLine(
        tuple(spans), tuple((phase, duration(time)) for phase, time in times.items() if time >= 1)
    )


def _seconds(at: str) -> float | None:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return None
