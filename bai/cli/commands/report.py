"""`bai report`: usage, efficiency."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.formats import Format, ReportFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app(help="Hours that were held, and what was used of what was asked for.", no_args_is_help=True)


class Subject(StrEnum):
    """What hours are added up by."""

    project = "project"
    user = "user"
    session = "session"


@app.command()
def usage(
    ctx: typer.Context,
    by: Annotated[Subject, typer.Option("--by", help="Whose hours are added up.")] = Subject.project,
    month: Annotated[str, typer.Option(metavar="YYYY-MM", help="Default: this month so far.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="2026-01-31, 2026-01-31T12:00:00Z, or 7d: that long ago.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="The same: only until then.")] = "",
    format: Annotated[
        ReportFormat, typer.Option("--format", "-o", help="How to print it.")
    ] = ReportFormat.table,
) -> None:
    """Show GPU and CPU hours that sessions held in a time, whether or not they were used.

    What began before or goes on counts for the time in between. Parts of a GPU count as parts.

    \b
    bai report usage --month 2026-11             by project, like sreport
    bai report usage --by user --since 7d        the last week
    bai report usage --by session -o csv         for a spreadsheet
    """
    import time

    from bai.cli.reports.period import parse_period
    from bai.cli.reports.usage import report_usage

    report_usage(settings_of(ctx), parse_period(month, since, until, time.time()), by.value, format)


@app.command()
def efficiency(
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", autocompletion=complete_sessions)],
    format: FormatOption = Format.text,
) -> None:
    """Show what a session's last start was given against what it used: CPU, memory, GPU.

    What nobody measured is said to be unknown.

    \b
    bai report efficiency train                  like seff
    """
    from bai.cli.reports.efficiency import report_efficiency

    report_efficiency(settings_of(ctx), session, format)
