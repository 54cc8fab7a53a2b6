"""`bai top`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.completion import sessions
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.settings import Settings, settings_of

if TYPE_CHECKING:
    from bai.cli.sessions.usage_samples import Meter
    from bai.render.analysis.top_rows import UseRow

app = new_app()


class Sort(StrEnum):
    """What comes first."""

    cpu = "cpu"
    memory = "memory"
    network = "network"
    gpu = "gpu"
    name = "name"


@app.command()
def top(
    ctx: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="Only this one.", autocompletion=sessions),
    ] = None,
    interval: Annotated[
        float,
        typer.Option("--interval", "-i", min=0.2, max=3600, metavar="SECONDS", help="Between looks."),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One table; also where there is no terminal.")] = False,
    sort: Annotated[Sort, typer.Option("--sort", "-s", help="What comes first.")] = Sort.cpu,
    format: Annotated[Format, typer.Option("--format", help="JSON is one look.")] = Format.text,
) -> None:
    """Show what sessions use: CPU (100 is one core), memory, network, processes, GPUs.

    Rates are over the interval; `-` is not known. A session of several containers has a line for all.

    \b
    bai top                          live, until Ctrl-C
    bai top --once --sort gpu        one table
    bai top llama --format json      for a program
    """
    from bai.cli.resource_names import resolve
    from bai.cli.sessions.usage_samples import Meter

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        only = resolve(session, workspace.actual().existing, "Session") if session else None
        meter = Meter(workspace, only)
        if format is Format.json:
            _json(next(meter.every(interval)), interval)
        elif once or not _is_terminal():
            _table(settings, next(meter.every(interval)), sort)
        else:
            _live(settings, meter, interval, sort)


def _is_terminal() -> bool:
    from bai.cli.output import is_terminal

    return is_terminal(sys.stdout)


def _json(rows: list[UseRow], interval: float) -> None:
    from bai.cli.output import print_json
    from bai.render.analysis.top_rows import as_json

    ordered = sorted(rows, key=lambda row: (row.session, row.kernel))
    print_json("bai.top/v1", interval=interval, kernels=[as_json(row) for row in ordered])


def _table(settings: Settings, rows: list[UseRow], sort: Sort) -> None:
    from bai.cli.output import table
    from bai.render.analysis.top_rows import COLUMNS, arranged, cells

    table(settings, COLUMNS, [cells(row) for row in arranged(rows, sort)], empty="Nothing runs.")


def _live(settings: Settings, meter: Meter, interval: float, sort: Sort) -> None:
    from rich.live import Live
    from rich.text import Text

    from bai.cli.output import console
    from bai.render.analysis.top_table import LiveTable

    with Live(
        Text("measuring ...", "dim"), console=console(settings), screen=True, auto_refresh=False
    ) as live:
        live.refresh()
        try:
            for rows in meter.every(interval):
                live.update(LiveTable(rows, sort), refresh=True)
        except KeyboardInterrupt:
            return
