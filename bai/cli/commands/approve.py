"""`bai approve`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.lazy_commands import new_app
from bai.cli.options import Why
from bai.settings import settings_of

app = new_app()


@app.command()
def approve(
    ctx: typer.Context,
    commit: Annotated[str, typer.Argument(metavar="COMMIT", help="What may be carried out.")],
    why: Why = "",
) -> None:
    """Let the loop carry out a commit, where it waits for that (`bai reconcile --mode approve`)."""
    from bai.cli.changes.give_directive import desk

    with desk(settings_of(ctx)) as here:
        name, by = here.cluster, here.told(why, commit)
        here.give("approve", by)
    typer.echo(f"Cluster {name} may be brought to {by.commit[:12]}.")
