"""`bai resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import ReasonOption

if TYPE_CHECKING:
    from reconciler.gitops.directives import DirectiveKind

app = new_app()
_ORDERS: tuple[DirectiveKind, ...] = ("suspend", "pin")


@app.command()
def resume(
    ctx: typer.Context,
    why: ReasonOption = "",
) -> None:
    """Have the loop go on: neither suspended nor held at a commit."""
    from bai.cli.loops.directives import open_directives

    with open_directives(settings_of(ctx)) as target:
        name, by = target.cluster, target.new_directive(why)
        taken_back = [order for order in _ORDERS if target.take_back(order, by)]
    words = {"suspend": "is suspended no longer", "pin": "follows its documents again"}
    changes = " and ".join(words[order] for order in taken_back)
    typer.echo(f"Cluster {name} {changes}." if changes else f"Cluster {name} was neither suspended nor held.")
