"""Moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bai.queries.months import month_period
from bai.render.humanize import clean
from reconciler.values.usage.totals import Period
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


def parse_period(month: str, since: str, until: str, now: float) -> Period:
    """A month (of UTC, as all that is printed), or from `since` until `until`; the current month so far when
    nothing is said. Raises CommandError."""
    if month and (since or until):
        raise CommandError(why="--month is a time of its own", hint="leave out --since and --until")
    meant = month_period(month, now)
    begin, end = meant.since, meant.until
    if since or until:
        begin = parse_time(since, now).timestamp() if since else begin
        end = parse_time(until, now).timestamp() if until else now
    if begin >= end:
        raise CommandError(why="the time ends before it begins", hint="--since comes before --until")
    return Period(begin, end)
