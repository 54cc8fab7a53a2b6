"""Moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bai.render.humanize import clean
from schemas.problems.errors.command import CommandError
from schemas.values.quantities import parse_duration


def parse_time(text: str, now: float) -> datetime:
    """`90m` or `1d2h` before `now` (seconds since the epoch), or an ISO 8601 date or time, which is UTC as
    all that is printed unless it says otherwise. Raises CommandError."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromtimestamp(now, UTC) - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        raise CommandError(
            why=f"{clean(text)!r} is neither a time nor a duration",
            hint="such as 2026-01-31, 2026-01-31T12:00:00Z, 90m or 7d",
        ) from None
