"""`bai describe`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def describe(
    ctx: typer.Context,
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="llama, vision/llama or Session/vision/llama.")
    ],
    format: FormatOption = Format.text,
) -> None:
    """Show a resource: document, placement, what its kernels really have, and what happened to it."""
    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import DescribeQuery

    settings = settings_of(ctx)
    print_printout(settings, read(settings, DescribeQuery.of(resource=resource, form=form_of(format))))
