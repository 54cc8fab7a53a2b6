"""`bai apply`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import waiting_settings
from bai.cli.lazy_commands import new_app
from bai.cli.options import (
    Defragment,
    MaxMoves,
    NoCheck,
    NoWait,
    Parallel,
    RefreshHardware,
    RefreshOnly,
    Replace,
    Targets,
    Yes,
)

if TYPE_CHECKING:
    pass

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
    no_wait: NoWait = False,
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
    """Make a plan, ask, and carry it out; nodes are provisioned wave after wave, and then take sessions;
    services are followed until their replicas are ready.
    A saved plan is carried out exactly, or refused when stale."""
    from bai.cli.plans.apply_plan import NewPlan, apply_new, apply_saved, refresh
    from bai.cli.plans.post_review import ReviewedChange, pin_trusted_revision
    from reconciler.values.plan_options import PlanOptions

    reviewed_change = ReviewedChange.from_options(base, reviewed)
    settings = pin_trusted_revision(waiting_settings(ctx))
    if refresh_only:
        choices = {"--replace": replace, "--defragment": defragment, "--reviewed": reviewed}
        _refuse_options("refreshing plans nothing", choices)
        refresh(settings, hardware=refresh_hardware)
    elif plan_file is not None:
        choices = {"--target": target, "--replace": replace, "--defragment": defragment}
        choices |= {"--refresh-hardware": refresh_hardware, "--no-check": no_check, "--reviewed": reviewed}
        _refuse_options("a saved plan has its choices already", choices)
        apply_saved(settings, plan_file, parallel)
    else:
        if reviewed_change is not None:
            choices = {"--target": target, "--replace": replace, "--defragment": defragment}
            _refuse_options("what was reviewed is carried out as a whole, and nothing else", choices)
        moves = max_moves if defragment else 0
        options = PlanOptions(targets=tuple(target or ()), replace=tuple(replace or ()), most_moves=moves)
        way = NewPlan(
            options, parallel, yes=yes, hardware=refresh_hardware, check=not no_check, wait=not no_wait
        )
        apply_new(settings, way, reviewed_change)


def _refuse_options(why: str, choices: Mapping[str, object]) -> None:
    """Raises CommandError for choices that only a new plan can have."""
    from schemas.problems.errors.command import CommandError

    for option, given in choices.items():
        if given:
            raise CommandError(why=why, hint=f"leave {option} out")
