"""`bai fmt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def fmt(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE|DIR]...", help="Default: the repository. `-`: stdin.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 when a file would change.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; print what would change.")] = False,
) -> None:
    """Bring documents into the one normal form. Comments stay, and no meaning changes."""
    from bai.cli.repository.formatting import changed_files, diff_lines, format_stdin, write_formatted

    if paths == ["-"]:
        format_stdin()
        return
    found = changed_files([Path(path) for path in paths or [str(settings_of(ctx).directory)]])
    for item in found:
        if diff:
            typer.echo("\n".join(diff_lines(item)))
        else:
            typer.echo(item.path)
        if not (check or diff):
            write_formatted(item)
    if found and check:
        raise typer.Exit(1)
