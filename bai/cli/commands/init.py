"""`bai init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def init(
    ctx: typer.Context,
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where; made when missing. Default: here.")
    ] = None,
) -> None:
    """Write a first repository: this machine as a cluster, a project, a session. Overwrites nothing."""
    from bai.cli.repository.scaffold import scaffold

    settings = settings_of(ctx)
    root = directory if directory is not None else settings.directory
    for path in scaffold(root):
        typer.echo(f"  {path}")
    where = "" if root.resolve() == Path.cwd() else f" -C {root}"
    typer.echo(f"Written. `bai{where} plan` says what it would run, `bai{where} apply` runs it.")
