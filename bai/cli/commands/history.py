"""`bai history`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def history(
    ctx: typer.Context,
    tail: Annotated[
        int, typer.Option("--tail", "-n", min=1, max=10_000, metavar="COUNT", help="Only the last.")
    ] = 30,
    format: FormatOption = Format.text,
) -> None:
    """Show what was applied, from which commits, by whom, and what loops were told. The newest comes first.

    `bai show DIGEST` has the whole plan, `bai audit` every single change.
    """
    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import HistoryQuery

    settings = settings_of(ctx)
    print_printout(settings, read(settings, HistoryQuery.of(tail=tail, form=form_of(format))))
