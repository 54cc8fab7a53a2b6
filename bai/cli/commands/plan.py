"""`bai plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import waiting_settings
from bai.cli.formats import PlanFormat, PlanView
from bai.cli.lazy_commands import new_app
from bai.cli.options import (
    Defragment,
    Details,
    MaxMoves,
    NoCheck,
    NoPager,
    PlanFormatOption,
    RefreshHardware,
    RefreshOnly,
    Replace,
    Targets,
)
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.values.plan import Plan
    from reconciler.workspace.workspace import Workspace

app = new_app()
CHANGES = 2
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="REVISION",
        help="Show only what the documents change since they left this commit: for a pull request.",
    ),
]


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
    format: PlanFormatOption = PlanFormat.text,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Save it for `bai apply FILE`.")
    ] = None,
    base: Base = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 when there are changes.")
    ] = False,
    details: Details = False,
    no_pager: NoPager = False,
) -> None:
    """Show what `bai apply` would do, where it would put things, and why the rest waits. Changes nothing."""
    from bai.cli.plans.node_waves import role_check_announcer
    from bai.cli.plans.show_plan import print_if_nothing_moves, save_plan
    from bai.queries.names.resource_names import resolve_plan_options
    from reconciler.values.plan_options import PlanOptions

    settings, view = waiting_settings(ctx), PlanView(details, not no_pager)
    if base is not None:
        whole = not (target or replace or defragment or refresh_only or refresh_hardware or destroy)
        if not whole:
            raise typer.BadParameter(
                "goes with options of printing, --out, --offline and --detailed-exitcode only",
                param_hint="--base",
            )
        _review(settings, base, format, out, view, detailed_exitcode=detailed_exitcode)
        return
    with _open_trusted(settings) as workspace:
        if refresh_hardware:
            workspace.find_hardware(reprobe=True)
        options = PlanOptions(
            targets=tuple(target or ()), replace=tuple(replace or ()), refresh_only=refresh_only,
            destroy=destroy, most_moves=max_moves if defragment else 0,
        )  # fmt: skip
        made = workspace.plan(
            resolve_plan_options(options, workspace.desired(), workspace.existing_reader),
            offline=offline,
            on_role_check=None if no_check or refresh_only or destroy else role_check_announcer(),
        )
        if out is not None:
            save_plan(made, out)
        _show(settings, workspace, made, format, offline, view)
    if defragment and format is PlanFormat.text:
        print_if_nothing_moves(made)
    if out is not None and format is PlanFormat.text:
        typer.echo(_saved_text(out, unseen=offline))
    _exit(made, refused=bool(made.violations), detailed=detailed_exitcode)


def _show(
    settings: Settings, workspace: Workspace, made: Plan, format: PlanFormat, offline: bool, view: PlanView
) -> None:
    from bai.cli.plans.show_plan import show_plan
    from bai.queries.facts.hold_notes import hold_notes
    from bai.queries.view import WorkspaceView

    show_plan(settings, workspace, made, format, offline, view)
    for note in hold_notes(WorkspaceView.of(workspace).directives):
        typer.echo(note, err=True)


def _exit(made: Plan, *, refused: bool, detailed: bool) -> None:
    if refused:
        raise typer.Exit(1)
    if detailed and made.changes:
        raise typer.Exit(CHANGES)


def _open_trusted(settings: Settings) -> Workspace:
    """Raises NotTrusted, and what opening the workspace raises."""
    from bai.cli.plans.post_review import pin_trusted_revision

    return pin_trusted_revision(settings).workspace()


def _saved_text(out: Path, *, unseen: bool) -> str:
    condition = ", unless something runs that was not looked at" if unseen else ""
    return f"\nSaved. `bai apply {out}` carries out exactly this{condition}."


def _review(
    settings: Settings,
    base: str,
    format: PlanFormat,
    out: Path | None,
    view: PlanView,
    *,
    detailed_exitcode: bool,
) -> None:
    from bai.cli.plans.post_review import commit_gate
    from bai.cli.plans.show_review import save_review, show_review
    from reconciler.review.between_commits import review_since

    with settings.workspace() as workspace:
        found = review_since(workspace, base, gate=commit_gate(settings, workspace.source))
        if out is not None:
            save_review(found, out)
        show_review(settings, found, format, view)
    _exit(found.plan, refused=not found.passes, detailed=detailed_exitcode)
