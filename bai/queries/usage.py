"""`bai report usage`: the hours that sessions held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.render.analysis.usage_report import incomplete_note, usage_columns, usage_json, usage_rows
from bai.render.printout import Printout, Table
from reconciler.values.records import Holdings
from reconciler.values.usage.totals import Period, held_allocations, held_totals, key_of

if TYPE_CHECKING:
    from bai.queries.models import UsageQuery
    from bai.queries.view import ClusterView


def answer(view: ClusterView, query: UsageQuery) -> Printout:
    """Of the sessions that may be seen."""
    period = Period(query.since, view.now if query.until is None else query.until)
    holdings = view.holdings(period.since, period.until) or Holdings((), {})
    held = tuple(each for each in held_allocations(holdings, view.now) if view.sees(each.session))
    models = view.gpu_models if any(".mig." in slot for each in held for slot in each.devices) else ()
    totals = held_totals(held, period, key_of(query.by, lambda owner: _user_name(view, owner)), models)
    report = {
        "cluster": view.cluster, **usage_json(query.by, period, totals, holdings.complete_since)
    }  # fmt: skip
    if query.form == "json":
        return Printout("bai.usage/v1", report)
    wide = query.form == "wide"
    rows = tuple(map(tuple, usage_rows(query.by, totals, wide=wide)))
    table = Table(tuple(usage_columns(query.by, wide=wide)), rows, "Nothing was held.")
    note = incomplete_note(report)
    return Printout(blocks=(table,), notes=(note,) if note else ())


def _user_name(view: ClusterView, owner: str) -> str:
    user = view.repository.user_of(owner)
    return user.name if user is not None else owner
