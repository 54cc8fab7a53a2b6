"""`bai apply`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy import new_app
from bai.cli.options import Defragment, MaxMoves, Parallel, RefreshOnly, Replace, Targets, Yes
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
    replace: Replace = None,
    defragment: Defragment = False,
    max_moves: MaxMoves = 5,
    refresh_only: RefreshOnly = False,
    yes: Yes = False,
    parallel: Parallel = 8,
) -> None:
    """Make a plan, ask, and carry it out. A saved plan is carried out exactly, or refused when stale."""
    settings = settings_of(ctx)
    if refresh_only:
        _refuse("refreshing plans nothing", {"--replace": replace, "--defragment": defragment})
        _refresh(settings)
    elif plan_file is not None:
        _refuse(
            "a saved plan has its choices already",
            {"--target": target, "--replace": replace, "--defragment": defragment},
        )
        _apply_saved(settings, plan_file, parallel)
    else:
        moves = max_moves if defragment else 0
        _apply_new(settings, tuple(target or ()), tuple(replace or ()), moves, parallel, yes=yes)


def _refuse(why: str, choices: Mapping[str, object]) -> None:
    """Raises CommandError for choices that only a new plan can have."""
    from schemas.errors import CommandError

    for option, given in choices.items():
        if given:
            raise CommandError(why=why, hint=f"leave {option} out")


def _apply_new(
    settings: Settings,
    targets: tuple[str, ...],
    replace: tuple[str, ...],
    moves: int,
    parallel: int,
    *,
    yes: bool,
) -> None:
    from bai.cli.confirm import confirm
    from bai.cli.names import sessions_named
    from bai.cli.show_plan import say_unmoved, show_plan
    from bai.render.plan_view import summary

    with settings.workspace() as workspace:
        anew = sessions_named(replace, workspace.desired().sessions())
        plan = workspace.plan(targets=targets, anew=anew, moves=moves)
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
        if moves:
            say_unmoved(plan)
        if not plan.changes:
            return
        typer.echo("")
        confirm(f"{summary(plan)} Go ahead?", yes=yes)
        _finish(settings, workspace, plan, parallel)


def _apply_saved(settings: Settings, path: Path, parallel: int) -> None:
    from bai.cli.show_plan import read_plan
    from bai.render.plan_view import summary

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
