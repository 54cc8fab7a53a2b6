"""`bai plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy import new_app
from bai.cli.options import Defragment, MaxMoves, RefreshOnly, Replace, Targets
from bai.cli.settings import settings_of

app = new_app()
CHANGES = 2


@app.command()
def plan(
    ctx: typer.Context,
    target: Targets = None,
    replace: Replace = None,
    defragment: Defragment = False,
    max_moves: MaxMoves = 5,
    refresh_only: RefreshOnly = False,
    destroy: Annotated[bool, typer.Option("--destroy", help="Plan the removal of everything.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no provider: plan on declared and recorded nodes.")
    ] = False,
    format: Annotated[PlanFormat, typer.Option("--format", help="How to print it.")] = PlanFormat.text,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Save it for `bai apply FILE`.")
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 when there are changes.")
    ] = False,
) -> None:
    """Show what `bai apply` would do, where it would put things, and why the rest waits. Changes nothing."""
    from bai.cli.names import sessions_named
    from bai.cli.show_plan import save_plan, say_unmoved, show_plan

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        made = workspace.plan(
            targets=tuple(target or ()),
            offline=offline,
            refresh_only=refresh_only,
            destroy=destroy,
            anew=sessions_named(replace or (), workspace.desired().sessions()),
            moves=max_moves if defragment else 0,
        )
        if out is not None:
            save_plan(made, out)
        show_plan(settings, workspace, made, format, offline)
    if defragment and format is PlanFormat.text:
        say_unmoved(made)
    if out is not None and format is PlanFormat.text:
        typer.echo(f"\nSaved. `bai apply {out}` carries out exactly this.")
    if detailed_exitcode and made.changes:
        raise typer.Exit(CHANGES)
