"""`bai capacity`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import Offline, PlanFormatOption

app = new_app()


@app.command()
def capacity(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Only this resource group.")] = None,
    format: PlanFormatOption = PlanFormat.text,
    offline: Offline = False,
) -> None:
    """Show what each resource group has, gives and still fits, before and after the plan (`12 -> 9`)."""
    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import CapacityQuery

    settings = settings_of(ctx)
    query = CapacityQuery.of(group=group or "", form=form_of(format))
    found = read(settings, query, offline=offline)
    print_printout(settings, found, markdown=format is PlanFormat.markdown)
