"""`bai validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app

if TYPE_CHECKING:
    pass

app = new_app()


@app.command()
def validate(
    ctx: typer.Context,
    format: Annotated[Format, typer.Option("--format", help="How to print problems.")] = Format.text,
) -> None:
    """Check every document of the repository; exit code 1 and `file:line:column` for each mistake."""
    from bai.cli.repository.validation import print_problems_json, summary
    from schemas.problems.errors.repository import InvalidRepository

    settings = settings_of(ctx)
    try:
        repository = settings.repository()
    except InvalidRepository as error:
        if format is Format.text:
            raise
        print_problems_json(error.problems, ())
        raise typer.Exit(1) from None
    if format is Format.json:
        print_problems_json((), repository.warnings, len(repository.resources))
        return
    for warning in repository.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(summary(repository))
