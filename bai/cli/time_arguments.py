"""Moments as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from bai.render.humanize import clean
from reconciler.values.usage.totals import Period
from schemas.problems.errors.command import CommandError
from schemas.values.quantities import parse_duration

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


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
    begin, end = _month(month, now)
    if since or until:
        begin = parse_time(since, now).timestamp() if since else begin
        end = parse_time(until, now).timestamp() if until else now
    if begin >= end:
        raise CommandError(why="the time ends before it begins", hint="--since comes before --until")
    return Period(begin, end)


def _month(text: str, now: float) -> tuple[float, float]:
    today = datetime.fromtimestamp(now, UTC)
    match = _MONTH.fullmatch(text or f"{today.year:04}-{today.month:02}")
    if match is None or not 1 <= (year := int(match[1])) < 9999:
        raise CommandError(why=f"--month: {clean(text)!r} is no month", hint="such as 2026-11")
    number = int(match[2])
    first = datetime(year, number, 1, tzinfo=UTC)
    following = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return first.timestamp(), following.timestamp()
