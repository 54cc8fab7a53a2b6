"""`bai approve`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import ReasonOption

app = new_app()


@app.command()
def approve(
    ctx: typer.Context,
    commit: Annotated[str, typer.Argument(metavar="COMMIT", help="What may be carried out.")],
    why: ReasonOption = "",
) -> None:
    """Let the loop carry out a commit, where it waits for that (`bai reconcile --mode approve`)."""
    from bai.cli.loops.directives import open_orders

    with open_orders(settings_of(ctx)) as orders:
        found, name = orders.give_for_commit("approve", commit, why), orders.cluster
    typer.echo(f"Cluster {name} may be brought to {found[:12]}.")
