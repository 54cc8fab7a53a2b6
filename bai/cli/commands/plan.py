"""`bai plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import (
    Defragment,
    HowPlan,
    MaxMoves,
    NoCheck,
    RefreshHardware,
    RefreshOnly,
    Replace,
    Targets,
)
from bai.settings import Settings, settings_of

if TYPE_CHECKING:
    from reconciler.values.plan import Plan
    from reconciler.workspace.workspace import Workspace

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
    refresh_hardware: RefreshHardware = False,
    no_check: NoCheck = False,
    destroy: Annotated[bool, typer.Option("--destroy", help="Plan the removal of everything.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no provider: plan on declared and recorded nodes.")
    ] = False,
    format: HowPlan = PlanFormat.text,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Save it for `bai apply FILE`.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="REVISION",
            help="Show only what the documents change since they left this commit: for a pull request.",
        ),
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 when there are changes.")
    ] = False,
) -> None:
    """Show what `bai apply` would do, where it would put things, and why the rest waits. Changes nothing."""
    from bai.cli.changes.node_waves import asking
    from bai.cli.changes.show_plan import save_plan, say_unmoved, show_plan
    from bai.cli.resource_names import sessions_named, targets_named

    settings = settings_of(ctx)
    if base is not None:
        whole = not (target or replace or defragment or refresh_only or refresh_hardware or destroy)
        _review(settings, base, format, out, whole=whole, detailed_exitcode=detailed_exitcode)
        return
    with _opened(settings) as workspace:
        if refresh_hardware:
            workspace.find_hardware(anew=True)
        made = workspace.plan(
            targets=targets_named(target or (), workspace),
            offline=offline,
            refresh_only=refresh_only,
            destroy=destroy,
            anew=sessions_named(replace or (), workspace.desired().sessions()),
            moves=max_moves if defragment else 0,
            check=None if no_check or refresh_only or destroy else asking(),
        )
        if out is not None:
            save_plan(made, out)
        show_plan(settings, workspace, made, format, offline)
    if defragment and format is PlanFormat.text:
        say_unmoved(made)
    if out is not None and format is PlanFormat.text:
        typer.echo(_saved(out, unseen=offline))
    _end(made, refused=bool(made.violations), detailed=detailed_exitcode)


def _end(made: Plan, *, refused: bool, detailed: bool) -> None:
    if refused:
        raise typer.Exit(1)
    if detailed and made.changes:
        raise typer.Exit(CHANGES)


def _opened(settings: Settings) -> Workspace:
    """Raises NotTrusted, and what opening the workspace raises."""
    from bai.cli.changes.post_review import trusted

    return trusted(settings).workspace()


def _saved(out: Path, *, unseen: bool) -> str:
    condition = ", unless something runs that was not looked at" if unseen else ""
    return f"\nSaved. `bai apply {out}` carries out exactly this{condition}."


def _review(
    settings: Settings,
    base: str,
    format: PlanFormat,
    out: Path | None,
    *,
    whole: bool,
    detailed_exitcode: bool,
) -> None:
    from bai.cli.changes.post_review import gate_of
    from bai.cli.changes.show_review import save_review, show_review
    from reconciler.review.between_commits import review_since

    if not whole:
        raise typer.BadParameter(
            "goes with --format, --out, --offline and --detailed-exitcode only", param_hint="--base"
        )
    with settings.workspace() as workspace:
        found = review_since(workspace, base, gate=gate_of(settings, workspace))
        if out is not None:
            save_review(found, out)
        show_review(settings, found, format)
    _end(found.plan, refused=not found.passes, detailed=detailed_exitcode)
