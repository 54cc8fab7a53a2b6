"""`bai resume`."""

from __future__ import annotations

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import ReasonOption

app = new_app()


@app.command()
def resume(
    ctx: typer.Context,
    why: ReasonOption = "",
) -> None:
    """Have the loop go on: neither suspended nor held at a commit."""
    from bai.cli.loops.directives import open_orders

    with open_orders(settings_of(ctx)) as orders:
        ended, name = orders.resume(why), orders.cluster
    words = {"suspend": "is suspended no longer", "pin": "follows its documents again"}
    changes = " and ".join(words[order] for order in ended if order in words)
    typer.echo(f"Cluster {name} {changes}." if changes else f"Cluster {name} was neither suspended nor held.")
