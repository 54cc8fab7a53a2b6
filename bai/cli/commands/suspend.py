"""`bai suspend`."""

from __future__ import annotations

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import ReasonOption

app = new_app()


@app.command()
def suspend(
    ctx: typer.Context,
    why: ReasonOption = "",
) -> None:
    """Have the loop change nothing until `bai resume`. It goes on looking, and says what would be due."""
    from bai.cli.loops.directives import open_orders

    with open_orders(settings_of(ctx)) as orders:
        orders.suspend(why)
        name = orders.cluster
    typer.echo(f"Cluster {name} is suspended; `bai resume` goes on.")
