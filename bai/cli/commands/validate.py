"""`bai validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import waiting_settings
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def validate(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE|DIR]...", help="Say only what is wrong with these; default: the repository."
        ),
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print problems.")] = Format.text,
) -> None:
    """Check every document of the repository; exit code 1 and `file:line:column` for each mistake.

    What files and folders refer to is looked for in the repository that they are in.
    """
    from bai.cli.repository.validation import check, print_problems_json, summary
    from schemas.problems.errors.repository import InvalidRepository

    checked = check(waiting_settings(ctx), paths or [])
    if format is Format.json:
        print_problems_json(checked.problems, checked.warnings, sum(checked.kinds.values()))
        if checked.problems:
            raise typer.Exit(1)
        return
    for warning in checked.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if checked.elsewhere:
        typer.echo(f"note: {checked.elsewhere} more in other files, see `bai validate`", err=True)
    if checked.problems:
        raise InvalidRepository(checked.problems, where=checked.where)
    typer.echo(summary(checked.kinds))
