"""`bai report usage`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import ReportFormat
from bai.render.humanize import iso_time
from bai.settings import Settings
from reconciler.values.records import Holdings
from reconciler.values.usage.totals import By, Period, held_allocations, held_totals, key_of

if TYPE_CHECKING:
    from reconciler.workspace.workspace import Workspace
    from schemas.repository.repository import Repository


def report_usage(settings: Settings, period: Period, by: By, format: ReportFormat) -> None:
    """Print it. Raises BaiError."""
    from bai.cli.output import print_json, print_table, write_document
    from bai.render.analysis.usage_report import usage_columns, usage_csv, usage_json, usage_rows

    with settings.reading_workspace() as workspace:
        store, cluster = workspace.existing_store, workspace.cluster.name
        holdings = store.holdings(cluster, period.since, period.until) if store else Holdings((), {})
        # After the store was read: what runs is held at least until then.
        held = tuple(held_allocations(holdings, time.time()))
        models = (
            _gpu_models(workspace) if any(".mig." in slot for each in held for slot in each.devices) else ()
        )
        totals = held_totals(held, period, key_of(by, _user_names(workspace.repository)), models)
    since = holdings.complete_since
    if format is ReportFormat.json:
        print_json("bai.usage/v1", cluster=cluster, **usage_json(by, period, totals, since))
        return
    if since is not None and since > period.since:
        typer.echo(f"note: what ended before {iso_time(since)} may be missing; it is not known", err=True)
    if format is ReportFormat.csv:
        write_document(usage_csv(by, totals))
        return
    wide = format is ReportFormat.wide
    print_table(
        settings, usage_columns(by, wide=wide), usage_rows(totals, wide=wide), empty="Nothing was held."
    )


def _user_names(repository: Repository) -> Callable[[str], str]:
    def name(owner: str) -> str:
        user = repository.user_of(owner)
        return user.name if user is not None else owner

    return name


def _gpu_models(workspace: Workspace) -> tuple[str, ...]:
    """Of the GPUs that there are, by documents and records; nobody is asked."""
    recorded = workspace.find_hardware(offline=True).hardware
    declared = (node.spec.hardware for node in workspace.repository.nodes_of(workspace.cluster.name))
    known = [each for each in (*declared, *recorded.values()) if each is not None]
    return tuple(sorted({gpu.model for hardware in known for gpu in hardware.gpus}))
