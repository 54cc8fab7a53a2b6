"""Hours that were held in a month, by project and user: what is charged to whom, on a page and as a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bai.queries.answers import answer
from bai.queries.models import UsageQuery
from bai.queries.months import month_of, month_period
from bai.render.analysis.usage_report import incomplete_note, usage_csv
from bai.web.panel.blocks import block_kinds, redacted

if TYPE_CHECKING:
    from bai.web.panel.blocks import Block
    from bai.web.pass_view import PassView
    from reconciler.values.usage.totals import Period

By = Literal["project-user", "project", "user", "session"]
BYS: tuple[tuple[By, str], ...] = (
    ("project-user", "project and user"),
    ("project", "project"),
    ("user", "user"),
    ("session", "session"),
)
MONTHS = 24
"""That can be chosen."""
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShowbackPage:
    """`bys`: what hours may be added up by, with words for it."""

    month: str
    months: tuple[str, ...]
    by: By
    bys: tuple[tuple[By, str], ...]
    goes_on: bool
    notes: tuple[str, ...]
    blocks: tuple[tuple[str, Block], ...]


@dataclass(frozen=True, slots=True)
class CsvFile:
    """`name`: what a browser calls it."""

    name: str
    text: str


def showback_page(view: PassView, month: str, by: By) -> ShowbackPage:
    """Of the sessions that may be seen; without a month, the current one. Raises CommandError."""
    period = month_period(month, view.now)
    found = redacted(view, answer(view, _query(period, by, "wide")))
    chosen = month_of(period.since)
    return ShowbackPage(
        month=chosen,
        months=tuple(sorted({chosen, *_last_months(view.now)}, reverse=True)),
        by=by,
        bys=BYS,
        goes_on=period.since <= view.now < period.until,
        notes=found.notes,
        blocks=tuple(block_kinds(found)),
    )


def showback_csv(view: PassView, month: str, by: By) -> CsvFile:
    """The same as a file, as `bai report usage -o csv` writes it. Raises CommandError."""
    period = month_period(month, view.now)
    document: dict[str, Any] = dict(redacted(view, answer(view, _query(period, by, "json"))).document)
    name = _UNSAFE.sub("-", f"{view.cluster}-{month_of(period.since)}-{by}")
    return CsvFile(f"{name}{'-incomplete' if incomplete_note(document) else ''}.csv", usage_csv(document))


def _query(period: Period, by: By, form: Literal["wide", "json"]) -> UsageQuery:
    return UsageQuery(by=by, since=period.since, until=period.until, form=form)


def _last_months(now: float) -> list[str]:
    found, at = [month_of(now)], now
    while len(found) < MONTHS:
        at = month_period(found[-1], at).since - 1
        found.append(month_of(at))
    return found
