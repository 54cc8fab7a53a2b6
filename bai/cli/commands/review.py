"""`bai review`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import waiting_settings
from bai.cli.formats import PlanFormat, PlanView
from bai.cli.lazy_commands import new_app
from bai.cli.options import Details, NoPager, PlanFormatOption

app = new_app()


@app.command()
def review(
    ctx: typer.Context,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="REVISION", help="What it is to be merged into; in a pipeline, it is known."
        ),
    ] = None,
    post: Annotated[
        bool,
        typer.Option("--post", help="Write it as a comment of the pull request that this pipeline runs for."),
    ] = False,
    format: PlanFormatOption = PlanFormat.text,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Save the whole of it as JSON.")
    ] = None,
    details: Details = False,
    no_pager: NoPager = False,
) -> None:
    """Show what a pull request does to the cluster and nothing else, and say so where it is talked about.

    With --post the comment is kept up to date, and the newest commit gets a status. Documents that cannot
    be used are told in the comment as well; the exit code is 1 for them and where `bai apply` would refuse.
    """
    from bai.cli.plans.post_review import PullRequestComment, review_and_post

    comment = PullRequestComment.from_current_pipeline() if post else None
    good = review_and_post(waiting_settings(ctx), base, comment, format, out, PlanView(details, not no_pager))
    if not good:
        raise typer.Exit(1)
