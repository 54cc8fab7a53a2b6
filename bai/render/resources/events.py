"""Events: in words, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from bai.render.humanize import clean, iso_time
from reconciler.values.records import Event


def event_line(event: Event) -> str:
    """One event in words."""
    change = f"{event.before or '-'} -> {event.after or '-'}"
    by = f"  by {clean(event.actor)}" if event.actor else ""
    at = f" at {clean(event.commit[:12])}" if event.commit else ""
    cause = f"  {clean(event.cause)}" if event.cause else ""
    return f"{iso_time(event.at)}  {clean(event.resource)}  {change}{cause}{by}{at}"


def parse_event(value: Mapping[str, object]) -> Event:
    """What `event_json` made. Raises ValueError."""
    seq, resource = value.get("seq"), _text(value, "resource")
    if not resource or not isinstance(seq, int):
        raise ValueError("an event without a resource or a number")
    return Event(
        resource, _text(value, "before"), _text(value, "after"), _text(value, "cause"),
        datetime.fromisoformat(_text(value, "at")).timestamp(), _text(value, "actor"), _text(value, "commit"),
        seq=seq,
    )  # fmt: skip


def _text(value: Mapping[str, object], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def event_json(event: Event) -> dict[str, object]:
    """One event of `bai.events/v1`."""
    return {
        "seq": event.seq,
        "at": iso_time(event.at),
        "resource": event.resource,
        "before": event.before,
        "after": event.after,
        "cause": event.cause,
        "actor": event.actor,
        "commit": event.commit,
    }
