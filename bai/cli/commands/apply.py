"""`bai apply`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import (
    Defragment,
    MaxMoves,
    NoCheck,
    Parallel,
    RefreshHardware,
    RefreshOnly,
    Replace,
    Targets,
    Yes,
)
from bai.settings import Settings, settings_of

if TYPE_CHECKING:
    from bai.cli.changes.post_review import Reviewed
    from reconciler.workspace.workspace import Workspace

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
    refresh_hardware: RefreshHardware = False,
    no_check: NoCheck = False,
    yes: Yes = False,
    parallel: Parallel = 32,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REVISION", help="With --reviewed: what the change was merged into."),
    ] = None,
    reviewed: Annotated[
        str | None,
        typer.Option(
            "--reviewed",
            metavar="DIGEST",
            help="Only if what lies since --base still does what was reviewed.",
        ),
    ] = None,
) -> None:
    """Make a plan, ask, and carry it out; nodes are provisioned wave after wave, and then take sessions.
    A saved plan is carried out exactly, or refused when stale."""
    from bai.cli.changes.post_review import Reviewed, trusted

    read = Reviewed.given(base, reviewed)
    settings = trusted(settings_of(ctx))
    if refresh_only:
        choices = {"--replace": replace, "--defragment": defragment, "--reviewed": reviewed}
        _refuse("refreshing plans nothing", choices)
        _refresh(settings, hardware=refresh_hardware)
    elif plan_file is not None:
        choices = {"--target": target, "--replace": replace, "--defragment": defragment}
        choices |= {"--refresh-hardware": refresh_hardware, "--no-check": no_check, "--reviewed": reviewed}
        _refuse("a saved plan has its choices already", choices)
        _apply_saved(settings, plan_file, parallel)
    else:
        if read is not None:
            choices = {"--target": target, "--replace": replace, "--defragment": defragment}
            _refuse("what was reviewed is carried out as a whole, and nothing else", choices)
        moves = max_moves if defragment else 0
        _apply_new(
            settings,
            tuple(target or ()),
            tuple(replace or ()),
            moves,
            parallel,
            yes=yes,
            hardware=refresh_hardware,
            check=not no_check,
            read=read,
        )


def _refuse(why: str, choices: Mapping[str, object]) -> None:
    """Raises CommandError for choices that only a new plan can have."""
    from schemas.problems.errors import CommandError

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
    hardware: bool,
    check: bool,
    read: Reviewed | None,
) -> None:
    from bai.cli.changes.node_waves import asking, carry_on
    from bai.cli.changes.show_plan import say_unmoved, show_plan
    from bai.cli.confirm import confirm
    from bai.cli.resource_names import sessions_named, targets_named
    from bai.render.plan.sections import summary
    from reconciler.guards.judge import refuse

    with settings.workspace(acting=True) as workspace:
        if hardware:
            workspace.find_hardware(anew=True)
        targets = targets_named(targets, workspace)
        anew = sessions_named(replace, workspace.desired().sessions())
        tell = asking() if check else None
        actual = workspace.actual()
        if read is not None:
            read.check(settings, workspace, actual)
        plan = workspace.plan(targets=targets, anew=anew, moves=moves, actual=actual, check=tell)
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
        if moves:
            say_unmoved(plan)
        refuse(plan)
        if not plan.changes:
            _look_around(workspace)
            return
        typer.echo("")
        confirm(f"{summary(plan)} Go ahead?", yes=yes)
        again = partial(workspace.plan, targets=targets)
        if not carry_on(settings, workspace, plan, parallel, yes=yes, make=again):
            raise typer.Exit(1)


def _apply_saved(settings: Settings, path: Path, parallel: int) -> None:
    from bai.cli.changes.execute_plan import carry_out
    from bai.cli.changes.node_waves import say_left
    from bai.cli.changes.show_plan import read_plan
    from bai.render.plan.sections import summary
    from reconciler.guards.judge import refuse
    from reconciler.plan.decide.node_health import refuse_unfit

    plan = read_plan(path)
    with settings.workspace(acting=True) as workspace:
        typer.echo(summary(plan))
        refuse(plan)
        refuse_unfit(plan, lambda: workspace.actual().health)
        if not carry_out(settings, workspace, plan, parallel):
            raise typer.Exit(1)
    say_left(plan)


def _look_around(workspace: Workspace) -> None:
    """Write down what was seen, also where there is nothing to do; whoever applies now does it instead."""
    from contextlib import suppress

    from bai.actor import holder
    from schemas.problems.errors import LeaseHeld

    with suppress(LeaseHeld):
        workspace.refresh(holder=holder())


def _refresh(settings: Settings, *, hardware: bool) -> None:
    """Write down what is seen; change nothing that runs."""
    from bai.actor import holder
    from bai.render.humanize import plural

    with settings.workspace() as workspace:
        if hardware:
            workspace.find_hardware(anew=True)
        actual = workspace.refresh(holder=holder())
    typer.echo(f"Recorded what was seen of {plural(len(actual.existing), 'resource')}.")
    for error in actual.errors:
        typer.echo(f"warning: {error}", err=True)
