"""`bai logs`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bai.cli.lazy import new_app
from bai.cli.settings import settings_of

app = new_app()


@app.command()
def logs(
    ctx: typer.Context,
    session: Annotated[
        str, typer.Argument(metavar="SESSION[/KERNEL]", help="main1 when no kernel is named.")
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the kernel ends.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="LINES", help="Only the last.")
    ] = None,
) -> None:
    """Print what a session's kernel wrote, byte for byte."""
    from bai.cli.find import find_kernel

    with settings_of(ctx).workspace() as workspace:
        _, kernel = find_kernel(workspace.actual(), session)
        out = sys.stdout.buffer
        try:
            for chunk in workspace.provider.logs(kernel.id, follow=follow, tail=tail):
                out.write(chunk)
                out.flush()
        except KeyboardInterrupt:
            if not follow:
                raise
