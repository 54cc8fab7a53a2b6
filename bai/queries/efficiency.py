"""`bai report efficiency`: what a session's last start was given against what it used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bai.queries.names.resource_names import resolve_with_past
from bai.render.analysis.efficiency_report import efficiency_json, efficiency_lines
from bai.render.humanize import clean
from bai.render.printout import Printout, plain_lines
from reconciler.values.records import Consumption
from reconciler.values.usage.consumption import add_consumptions
from reconciler.values.usage.efficiency import efficiency_of, last_start
from reconciler.values.usage.totals import held_allocations
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from bai.queries.models import EfficiencyQuery
    from bai.queries.view import ClusterView
    from reconciler.values.usage.efficiency import Efficiency

_EVER = 1e13
"""After every moment that a calendar has."""
_NOT_MEASURED = (
    "note: sessions with `idle` are measured, and all sessions where the Cluster has "
    "`accounting: {sampleInterval: 1m}`"
)


def answer(view: ClusterView, query: EfficiencyQuery) -> Printout:
    """Raises NoSuchResource, AmbiguousName, CommandError."""
    found, running, warnings = session_efficiency(view, resolve_with_past(query.session, view, "Session"))
    if query.form == "json":
        return Printout("bai.efficiency/v1", efficiency_json(found, running=running), warnings=warnings)
    if found.measured_until is None:
        warnings = (*warnings, _NOT_MEASURED)
    return Printout(blocks=(plain_lines(efficiency_lines(found, running=running)),), warnings=warnings)


def session_efficiency(view: ClusterView, identity: str) -> tuple[Efficiency, bool, tuple[str, ...]]:
    """Of a session's last start, whether that goes on, and warnings. Raises CommandError where nothing is
    known of one."""
    holdings = view.holdings(0.0, _EVER, identity)
    held = held_allocations(holdings, view.now) if holdings is not None else ()
    start = last_start(each for each in held if each.session == identity)
    if not start:
        hint = "`bai explain` says what it waits for; what ended long ago may be forgotten"
        raise CommandError(why=f"nothing is known of a start of {clean(identity)}", hint=hint)
    # What is held still has its kernels; what is written down has not.
    running = bool(start[-1].kernels)
    used, warnings = _used_now(view, start[-1].kernels) if running else (start[-1].used, ())
    return efficiency_of(start, used), running, warnings


def _used_now(view: ClusterView, kernels: Sequence[str]) -> tuple[Consumption, tuple[str, ...]]:
    """By one more look, on top of what is known; by that alone where nobody can be asked."""
    store = view.store
    warnings: tuple[str, ...] = ()
    samples = store.samples(view.cluster, kernels) if store is not None else {}
    try:
        seen = view.measure_usage(kernels, samples)
    except BaiError as error:
        seen, warnings = {}, (f"warning: what it uses now is not known: {clean(error.message)}",)
    last = {kernel: each[-1] for kernel, each in samples.items()} | dict(seen)
    return add_consumptions(last[each].total if each in last else Consumption() for each in kernels), warnings
