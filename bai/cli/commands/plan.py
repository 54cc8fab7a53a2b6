"""`bai plan`."""

from __future__ import annotations

from dataclasses import dataclass
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
from bai.cli.plans.garbage import garbage_is_left
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.values.plan import Plan
    from reconciler.values.plan_options import PlanOptions
    from reconciler.workspace.idle_plans import KnownIdlePlan
    from reconciler.workspace.store_access import StoreAccess
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
    from bai.cli.plans.post_review import pin_trusted_revision
    from bai.cli.plans.show_plan import print_if_nothing_moves
    from reconciler.values.plan_options import WHOLE_PLAN, PlanOptions

    settings, view = waiting_settings(ctx), PlanView(details, not no_pager)
    options = PlanOptions(
        targets=tuple(target or ()), replace=tuple(replace or ()), refresh_only=refresh_only,
        destroy=destroy, most_moves=max_moves if defragment else 0,
    )  # fmt: skip
    whole = options == WHOLE_PLAN and not (defragment or refresh_hardware)
    if base is not None:
        if not whole:
            raise typer.BadParameter(
                "goes with options of printing, --out, --offline and --detailed-exitcode only",
                param_hint="--base",
            )
        _review(settings, base, format, out, view, detailed_exitcode=detailed_exitcode)
        return
    shown, settings = _Shown(format, out, view), pin_trusted_revision(settings)
    with garbage_is_left():
        if whole and offline:
            made = _plan_idle(settings, shown)
        else:
            check = not (no_check or refresh_only or destroy)
            made = _plan_now(settings, shown, options, offline, check=check, reprobe=refresh_hardware)
    if defragment and format is PlanFormat.text:
        print_if_nothing_moves(made)
    if out is not None and format is PlanFormat.text:
        typer.echo(_saved_text(out, unseen=offline))
    _exit(made, refused=bool(made.violations), detailed=detailed_exitcode)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where a plan goes, and how."""

    format: PlanFormat
    out: Path | None
    view: PlanView

    @property
    def has_actions(self) -> bool:
        """Whether actions that do nothing are told, too."""
        return self.out is not None or self.format is PlanFormat.json


def _plan_now(
    settings: Settings, shown: _Shown, options: PlanOptions, offline: bool, *, check: bool, reprobe: bool
) -> Plan:
    from bai.cli.plans.node_waves import role_check_announcer
    from bai.queries.names.resource_names import resolve_plan_options

    with settings.workspace() as workspace:
        if reprobe:
            workspace.find_hardware(reprobe=True)
        made = workspace.plan(
            resolve_plan_options(options, workspace.desired(), workspace.existing_reader),
            offline=offline,
            on_role_check=role_check_announcer() if check else None,
            sealed=shown.has_actions,
        )
        _show(settings, workspace, made, offline, shown)
    return made


def _plan_idle(settings: Settings, shown: _Shown) -> Plan:
    """The whole plan for which nobody is asked; the one that an earlier command has made of the same, where
    that is known."""
    from reconciler.workspace.idle_plans import IdlePlans

    source = settings.source()
    plans = IdlePlans(source, settings.cluster)
    known = None if shown.has_actions else plans.find(settings.state)
    if known is not None:
        _show_known(settings, known, shown)
        return known.plan
    from reconciler.sources.known_documents import KnownDocuments

    # What is carried out rests on nothing that was remembered.
    documents = None if shown.has_actions else KnownDocuments.of_user(source)
    cache = documents.new_cache() if documents is not None else None
    with settings.workspace(source=source, documents=cache) as workspace:
        if documents is not None:
            documents.remember()
        made = plans.plan(workspace, sealed=shown.has_actions)
        _show(settings, workspace, made, True, shown)
    return made


def _show(settings: Settings, workspace: Workspace, made: Plan, offline: bool, shown: _Shown) -> None:
    from bai.cli.plans.show_plan import save_plan, show_plan

    if shown.out is not None:
        save_plan(made, shown.out)
    show_plan(settings, workspace, made, shown.format, offline, shown.view)
    _tell_holds(workspace)


def _show_known(settings: Settings, known: KnownIdlePlan, shown: _Shown) -> None:
    """Nothing is placed by it, so that no node is drawn."""
    from bai.cli.plans.show_plan import print_plan

    with known.access as access:
        print_plan(settings, known.plan, {}, shown.format, shown.view)
        _tell_holds(access)


def _tell_holds(access: StoreAccess) -> None:
    from bai.queries.facts.hold_notes import hold_notes
    from reconciler.gitops.directives import read_directives

    store = access.existing_reader
    directives = read_directives(store, access.cluster.name) if store is not None else None
    for note in hold_notes(directives):
        typer.echo(note, err=True)


def _exit(made: Plan, *, refused: bool, detailed: bool) -> None:
    if refused:
        raise typer.Exit(1)
    if detailed and made.changes:
        raise typer.Exit(CHANGES)


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
