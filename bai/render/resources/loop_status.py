"""What a cluster's loop is doing: its state, made of what loops and people wrote into the store; in words,
and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from bai.render.humanize import clean, duration, iso_time
from reconciler.gitops.directives import Directive, Directives

if TYPE_CHECKING:  # Commands that only say that the loop is held do not load the loop.
    from reconciler.controller.pass_note import PassNote

Presence = Literal["running", "stopped", "unknown", "never"]
"""Whether its process runs; `unknown`: it is on another machine, or in a container of its own."""
LoopState = Literal["suspended", "held", "awaiting-approval", "running", "stopped", "unknown", "never"]
APPROVAL = "approval-needed"


@dataclass(frozen=True, slots=True)
class LoopStatus:
    """Times are seconds since the epoch."""

    presence: Presence
    holder: str = ""
    """Who runs it, or ran it last."""
    since: float | None = None
    """When it began."""
    directives: Directives = field(default_factory=Directives)
    last_pass: PassNote | None = None
    last_seen: float | None = None
    """When the last pass ended, where each is written down: by replicas that share a server's store."""

    @property
    def state(self) -> LoopState:
        """What matters most: an order goes before what the process does."""
        if self.directives.suspend is not None:
            return "suspended"
        if self.directives.pin is not None:
            return "held"
        if self.presence == "running" and self.last_pass is not None and APPROVAL in self.last_pass.signs:
            return "awaiting-approval"
        return self.presence


def hold_lines(directives: Directives) -> list[str]:
    """One line for each order that keeps the loop from going on: by whom, since when, how to resume."""
    lines = []
    if (told := directives.suspend) is not None:
        lines.append(f"the loop is suspended{_order_text(told)}: `bai resume` goes on")
    if (told := directives.pin) is not None:
        commit = clean(told.commit[:12])
        lines.append(f"the loop is held at {commit}{_order_text(told)}: `bai resume` follows again")
    return lines


def loop_lines(status: LoopStatus) -> Iterator[str]:
    """The loop in words, orders first."""
    yield from hold_lines(status.directives)
    if status.state == "awaiting-approval" and status.last_pass is not None:
        yield clean(status.last_pass.signs[APPROVAL])
    since = f" since {iso_time(status.since)}" if status.since is not None else ""
    note = status.last_pass
    pace = f", a pass every {duration(note.interval)}" if note is not None and note.interval else ""
    only = ", only looking" if note is not None and note.observe_only else ""
    match status.presence:
        case "running":
            yield f"running{since}: {clean(status.holder)}{pace}{only}"
        case "stopped":
            yield f"not running: {clean(status.holder)} has ended; `bai reconcile` or `bai serve` starts one"
        case "unknown":
            yield f"may run elsewhere: {clean(status.holder)}{since}, of which nothing is known here"
        case "never":
            yield "none has made a pass yet: `bai reconcile` or `bai serve` starts one"


def pass_lines(status: LoopStatus) -> Iterator[str]:
    """How the last pass ended."""
    note = status.last_pass
    if note is None:
        yield "none"
        return
    at = f"; the last ended at {iso_time(status.last_seen)}" if status.last_seen is not None else ""
    commit = f" on {clean(note.commit[:12])}" if note.commit else ""
    how = "nothing was wrong" if note.good else "not everything was well"
    yield f"{how}{commit}, so since {iso_time(note.since)}{at}"
    yield from map(clean, note.notes)
    if note.left_out:
        yield f"and {note.left_out} more, in the loop's log"


def loop_json(status: LoopStatus) -> dict[str, object]:
    """`loop` of `bai.status/v1`."""
    orders = status.directives
    return {
        "state": status.state,
        "process": status.presence,
        "holder": status.holder,
        "since": iso_time(status.since),
        "suspended": _order_json(orders.suspend),
        "held": _order_json(orders.pin),
        "approved": _order_json(orders.approve),
    }


def pass_json(status: LoopStatus) -> dict[str, object] | None:
    """`lastPass` of `bai.status/v1`."""
    note = status.last_pass
    if note is None:
        return None
    return {
        "good": note.good,
        "since": iso_time(note.since),
        "endedAt": iso_time(status.last_seen),
        "commit": note.commit,
        "notes": list(note.notes),
        "notesLeftOut": note.left_out,
        "signs": dict(note.signs),
    }


def _order_text(told: Directive) -> str:
    why = f" ({clean(told.why)})" if told.why else ""
    return f" by {clean(told.actor)} since {iso_time(told.at)}{why}"


def _order_json(told: Directive | None) -> dict[str, object] | None:
    if told is None:
        return None
    return {"by": told.actor, "at": iso_time(told.at), "why": told.why, "commit": told.commit}
