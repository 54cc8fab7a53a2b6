"""`bai report efficiency`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format
from bai.render.humanize import clean
from bai.settings import Settings
from reconciler.values.records import Allocation, Consumption
from reconciler.values.usage.consumption import add_consumptions
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from reconciler.store.store import Store
    from reconciler.workspace.workspace import Workspace

_EVER = 1e13
"""After every moment that a calendar has."""


def report_efficiency(settings: Settings, name: str, format: Format) -> None:
    """Print it of the last start of a session. Raises BaiError."""
    from bai.cli.output import print_json, print_line
    from bai.render.analysis.efficiency_report import efficiency_json, efficiency_lines
    from reconciler.values.usage.efficiency import efficiency_of, last_start

    with settings.reading_workspace() as workspace:
        store = workspace.existing_store
        identity = _resolve(workspace, store, name)
        start = last_start(_held(store, workspace.cluster.name, identity) if store is not None else ())
        if store is None or not start:
            hint = "`bai explain` says what it waits for; what ended long ago may be forgotten"
            raise CommandError(why=f"nothing is known of a start of {clean(identity)}", hint=hint)
        # What is held still has its kernels; what is written down has not.
        running = bool(start[-1].kernels)
        used = _used_now(workspace, store, start[-1].kernels) if running else start[-1].used
    found = efficiency_of(start, used)
    if format is Format.json:
        print_json("bai.efficiency/v1", **efficiency_json(found, running=running))
        return
    for line in efficiency_lines(found, running=running):
        print_line(line)
    if found.measured_until is None:
        all_of_them = "all sessions where the Cluster has `accounting: {sampleInterval: 1m}`"
        typer.echo(f"note: sessions with `idle` are measured, and {all_of_them}", err=True)


def _resolve(workspace: Workspace, store: Store | None, name: str) -> str:
    from bai.queries.names.resource_names import resolve_name

    known = set(workspace.desired().sessions())
    if store is not None:
        cluster = workspace.cluster.name
        known |= {*store.recorded(cluster, "Session"), *store.audited_resources(cluster)}
    return resolve_name(name, known, "Session")


def _held(store: Store, cluster: str, identity: str) -> list[Allocation]:
    from reconciler.values.usage.totals import held_allocations

    holdings = store.holdings(cluster, 0.0, _EVER, identity)
    return [each for each in held_allocations(holdings, time.time()) if each.session == identity]


def _used_now(workspace: Workspace, store: Store, kernels: Sequence[str]) -> Consumption:
    """By one more look, on top of what is known; by that alone where the provider cannot be asked."""
    from reconciler.observe.usage_samples import measure_usage
    from schemas.problems.errors.base import BaiError

    samples = store.samples(workspace.cluster.name, kernels)
    try:
        seen = measure_usage(workspace.provider, set(kernels), samples)
    except BaiError as error:
        typer.echo(f"warning: what it uses now is not known: {clean(error.message)}", err=True)
        seen = {}
    last = {kernel: each[-1] for kernel, each in samples.items()} | seen
    return add_consumptions(last[each].total if each in last else Consumption() for each in kernels)
