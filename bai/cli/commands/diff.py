"""`bai diff`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from bai.cli.context import waiting_settings
from bai.cli.formats import PlanFormat, PlanView
from bai.cli.lazy_commands import new_app
from bai.cli.options import Details, NoPager, PlanFormatOption

app = new_app()


@app.command()
def diff(
    ctx: typer.Context,
    before: Annotated[str, typer.Argument(metavar="COMMIT", help="Where it starts.")],
    after: Annotated[
        str | None,
        typer.Argument(metavar="[COMMIT]", help="Where it leads; default: the documents."),
    ] = None,
    format: PlanFormatOption = PlanFormat.text,
    details: Details = False,
    no_pager: NoPager = False,
) -> None:
    """Show what the step from one commit to another does: resources, places, who waits. Changes nothing.

    As `bai review`, but from the first commit itself; back to an earlier one as well.
    """
    from bai.cli.plans.show_review import show_review
    from reconciler.review.between_commits import review_since

    settings = waiting_settings(ctx)
    if after is not None:
        settings = replace(settings, revision=after)
    with settings.workspace() as workspace:
        found = review_since(workspace, before, exactly=True)
        show_review(settings, found, format, PlanView(details, not no_pager))
