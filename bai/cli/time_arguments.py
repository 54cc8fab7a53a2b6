"""Times that commands are asked for."""

from __future__ import annotations

from bai.queries.months import month_period
from bai.queries.names.moments import parse_time
from reconciler.values.usage.totals import Period
from schemas.problems.errors.command import CommandError


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
