"""`bai report`: usage, efficiency."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.formats import Format, ReportFormat, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

if TYPE_CHECKING:
    from bai.render.printout import Printout

app = new_app(help="Hours that were held, and what was used of what was asked for.", no_args_is_help=True)


class Subject(StrEnum):
    """What hours are added up by."""

    project = "project"
    user = "user"
    session = "session"
    project_user = "project-user"


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
    bai report usage --by project-user -o csv    what is charged to whom: showback
    """
    import time

    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.cli.time_arguments import parse_period
    from bai.queries.models import UsageQuery

    settings, period = settings_of(ctx), parse_period(month, since, until, time.time())
    form = form_of(format)
    found = read(settings, UsageQuery.of(by=by.value, since=period.since, until=period.until, form=form))
    if format is ReportFormat.csv:
        _print_csv(found)
    else:
        print_printout(settings, found)


def _print_csv(found: Printout) -> None:
    from bai.cli.output import write_document
    from bai.render.analysis.usage_report import incomplete_note, usage_csv
    from schemas.problems.errors.command import CommandError

    try:
        text, note = usage_csv(found.document), incomplete_note(found.document)
    except (KeyError, TypeError, AttributeError):
        why = "what the server answers is no report of hours; are both of the same version?"
        raise CommandError(why=why) from None
    if note:
        typer.echo(note, err=True)
    write_document(text)


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
    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import EfficiencyQuery

    settings = settings_of(ctx)
    print_printout(settings, read(settings, EfficiencyQuery.of(session=session, form=form_of(format))))
