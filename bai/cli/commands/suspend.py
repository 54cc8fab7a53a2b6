"""`bai suspend`."""

from __future__ import annotations

import typer

from bai.cli.lazy_commands import new_app
from bai.cli.options import Why
from bai.settings import settings_of

app = new_app()


@app.command()
def suspend(
    ctx: typer.Context,
    why: Why = "",
) -> None:
    """Have the loop change nothing until `bai resume`. It goes on looking, and says what would be due."""
    from bai.cli.changes.give_directive import desk

    with desk(settings_of(ctx)) as here:
        here.give("suspend", here.told(why))
        name = here.cluster
    typer.echo(f"Cluster {name} is suspended; `bai resume` goes on.")
