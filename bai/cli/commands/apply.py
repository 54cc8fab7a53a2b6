"""`bai apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy import new_app
from bai.cli.options import Parallel, RefreshOnly, Targets, Yes
from bai.cli.settings import Settings, settings_of

if TYPE_CHECKING:
    from reconciler.plan import Plan
    from reconciler.workspace import Workspace

app = new_app()


@app.command()
def apply(
    ctx: typer.Context,
    plan_file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A plan saved by `bai plan --out`, carried out exactly."),
    ] = None,
    target: Targets = None,
    refresh_only: RefreshOnly = False,
    yes: Yes = False,
    parallel: Parallel = 8,
) -> None:
    """Make a plan, ask, and carry it out. A saved plan is carried out exactly, or refused when stale."""
    settings = settings_of(ctx)
    if refresh_only:
        _refresh(settings)
    elif plan_file is not None:
        _apply_saved(settings, plan_file, parallel, has_targets=bool(target))
    else:
        _apply_new(settings, tuple(target or ()), parallel, yes=yes)


def _apply_new(settings: Settings, targets: tuple[str, ...], parallel: int, *, yes: bool) -> None:
    from bai.cli.confirm import confirm
    from bai.cli.show_plan import show_plan
    from bai.render.plan_view import summary

    with settings.workspace() as workspace:
        plan = workspace.plan(targets=targets)
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
        if not plan.changes:
            return
        typer.echo("")
        confirm(f"{summary(plan)} Go ahead?", yes=yes)
        _finish(settings, workspace, plan, parallel)


def _apply_saved(settings: Settings, path: Path, parallel: int, *, has_targets: bool) -> None:
    from bai.cli.show_plan import read_plan
    from bai.render.plan_view import summary
    from schemas.errors import CommandError

    if has_targets:
        raise CommandError(why="a saved plan has its targets already", hint="leave --target out")
    plan = read_plan(path)
    with settings.workspace() as workspace:
        typer.echo(summary(plan))
        _finish(settings, workspace, plan, parallel)


def _finish(settings: Settings, workspace: Workspace, plan: Plan, parallel: int) -> None:
    from bai.cli.carry_out import carry_out

    if not carry_out(settings, workspace, plan, parallel):
        raise typer.Exit(1)


def _refresh(settings: Settings) -> None:
    """Write down what is seen; change nothing that runs."""
    from bai.cli.holder import holder
    from bai.render.words import plural

    with settings.workspace() as workspace:
        actual = workspace.refresh(holder=holder())
    typer.echo(f"Recorded what was seen of {plural(len(actual.existing), 'resource')}.")
    for error in actual.errors:
        typer.echo(f"warning: {error}", err=True)
