"""Moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas.errors import CommandError
from schemas.quantities import parse_duration


def moment_of(text: str, now: float) -> float:
    """Seconds since the epoch of an ISO 8601 date or time (UTC unless it says otherwise), or of a duration
    ago. Raises CommandError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    try:
        return now - parse_duration(text)
    except ValueError:
        raise CommandError(
            why=f"{text!r} is neither a time nor a duration",
            hint="such as 2026-01-31, 2026-01-31T12:00:00Z, 90m or 7d",
        ) from None
