"""What sessions use, on stdout: as a table, live, or as JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bai.settings import Settings

if TYPE_CHECKING:
    from bai.cli.sessions.usage_samples import UsageMeter
    from bai.render.analysis.top_rows import UsageRow


def on_terminal() -> bool:
    from bai.cli.output import is_terminal

    return is_terminal(sys.stdout)


def print_usage_json(rows: list[UsageRow], interval: float) -> None:
    from bai.cli.output import print_json
    from bai.render.analysis.top_rows import usage_json

    ordered = sorted(rows, key=lambda row: (row.session, row.kernel))
    print_json("bai.top/v1", interval=interval, kernels=[usage_json(row) for row in ordered])


def print_usage(settings: Settings, rows: list[UsageRow], sort: str) -> None:
    from bai.cli.output import print_table
    from bai.render.analysis.top_rows import COLUMNS, sort_by_session, usage_cells

    print_table(
        settings, COLUMNS, [usage_cells(row) for row in sort_by_session(rows, sort)], empty="Nothing runs."
    )


def print_usage_live(settings: Settings, meter: UsageMeter, interval: float, sort: str) -> None:
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
