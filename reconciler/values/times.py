"""Moments and spans of time as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

LATEST = 253_370_764_800.0
"""The beginning of the calendar's last year: a lease or a deadline from then on still has a date."""
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def clamped(at: float) -> float:
    """A time that a calendar has, whatever some clock said once."""
    return min(max(at, 0.0), LATEST)


def age(since: float, now: float) -> float:
    """Seconds since then; none for what a clock that was ahead has put into the future."""
    return max(0.0, now - since)


def format_time(at: float, now: float | None = None) -> str:
    """`14:02 UTC`, with the day before it when it is not the day of `now`."""
    moment = datetime.fromtimestamp(clamped(at), UTC)
    same = now is not None and datetime.fromtimestamp(clamped(now), UTC).date() == moment.date()
    return moment.strftime("%H:%M UTC" if same else "%Y-%m-%d %H:%M UTC")


def format_duration(seconds: float) -> str:
    """`1h30m`, in whole seconds."""
    left, parts = int(clamped(seconds)), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
