"""Months, as reports of hours are made for them: of UTC, as all times that are printed."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from bai.render.humanize import clean
from reconciler.values.usage.totals import Period
from schemas.problems.errors.command import CommandError

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


def month_period(text: str, now: float) -> Period:
    """`2026-11`; the month of `now` where nothing is said. Raises CommandError."""
    match = _MONTH.fullmatch(text or month_of(now))
    if match is None or not 1 <= (year := int(match[1])) < 9999:
        raise CommandError(why=f"--month: {clean(text)!r} is no month", hint="such as 2026-11")
    number = int(match[2])
    first = datetime(year, number, 1, tzinfo=UTC)
    following = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return Period(first.timestamp(), following.timestamp())


def month_of(moment: float) -> str:
    """`2026-11`, the month in which a moment lies."""
    found = datetime.fromtimestamp(moment, UTC)
    return f"{found.year:04}-{found.month:02}"
