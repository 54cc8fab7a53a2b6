"""`bai resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bai.cli.lazy_commands import new_app
from bai.cli.options import Why
from bai.settings import settings_of

if TYPE_CHECKING:
    from reconciler.gitops.directives import Order

app = new_app()
_ORDERS: tuple[Order, ...] = ("suspend", "pin")


@app.command()
def resume(
    ctx: typer.Context,
    why: Why = "",
) -> None:
    """Have the loop go on: neither suspended nor held at a commit."""
    from bai.cli.changes.give_directive import desk

    with desk(settings_of(ctx)) as here:
        name, by = here.cluster, here.told(why)
        was = [order for order in _ORDERS if here.take_back(order, by)]
    words = {"suspend": "is suspended no longer", "pin": "follows its documents again"}
    said = " and ".join(words[order] for order in was)
    typer.echo(f"Cluster {name} {said}." if said else f"Cluster {name} was neither suspended nor held.")
