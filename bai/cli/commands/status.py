"""`bai status`."""

from __future__ import annotations

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def status(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """Show a cluster on one screen: what its loop does, how the last pass ended, who waits, what is free."""
    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import StatusQuery

    settings = settings_of(ctx)
    print_printout(settings, read(settings, StatusQuery.of(form=form_of(format))))
