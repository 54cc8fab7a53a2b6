"""Moments and spans of time as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def clock(at: float, now: float | None = None) -> str:
    """`14:02 UTC`, with the day before it when it is not the day of `now`."""
    moment = datetime.fromtimestamp(at, UTC)
    same = now is not None and datetime.fromtimestamp(now, UTC).date() == moment.date()
    return moment.strftime("%H:%M UTC" if same else "%Y-%m-%d %H:%M UTC")


def span(seconds: float) -> str:
    """`1h30m`, in whole seconds."""
    left, parts = int(seconds), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
