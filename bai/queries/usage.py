"""`bai report usage`: the hours that sessions held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.render.analysis.usage_report import (
    incomplete_note,
    known_times,
    usage_columns,
    usage_json,
    usage_rows,
)
from bai.render.printout import Printout, Table
from reconciler.values.records import Holdings
from reconciler.values.usage.totals import By, HeldTotal, Period, held_allocations, held_totals, key_of

if TYPE_CHECKING:
    from bai.queries.models import UsageQuery
    from bai.queries.view import ClusterView
    from schemas.repository.repository import Repository


def answer(view: ClusterView, query: UsageQuery) -> Printout:
    """Of the sessions that may be seen."""
    period = Period(query.since, view.now if query.until is None else query.until)
    totals, complete_since = read_usage(view, query.by, period)
    if query.form == "json":
        report = {"cluster": view.cluster, **usage_json(query.by, period, totals, complete_since)}
        return Printout("bai.usage/v1", report)
    wide = query.form == "wide"
    rows = tuple(map(tuple, usage_rows(query.by, totals, wide=wide)))
    table = Table(tuple(usage_columns(query.by, wide=wide)), rows, "Nothing was held.")
    note = incomplete_note(known_times(period, complete_since))
    return Printout(blocks=(table,), notes=(note,) if note else ())


def read_usage(view: ClusterView, by: By, period: Period) -> tuple[dict[str, HeldTotal], float | None]:
    """By key, what sessions that may be seen held in the period; and from when on everything is known."""
    holdings = view.holdings(period.since, period.until) or Holdings((), {})
    held = tuple(each for each in held_allocations(holdings, view.now) if view.sees(each.session))
    models = view.gpu_models if any(".mig." in slot for each in held for slot in each.devices) else ()
    key = key_of(by, lambda owner: user_name(view.repository, owner))
    return held_totals(held, period, key, models), holdings.complete_since


def user_name(repository: Repository, owner: str) -> str:
    """A user's name, also where an account or a document has the e-mail address."""
    user = repository.user_of(owner)
    return user.name if user is not None else owner
