"""Times that commands are asked for."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from bai.queries.moments import parse_time
from bai.render.humanize import clean
from reconciler.values.usage.totals import Period
from schemas.problems.errors.command import CommandError

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


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
