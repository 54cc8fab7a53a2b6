"""`bai show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat, PlanView
from bai.cli.lazy_commands import new_app
from bai.cli.options import Details, NoPager, PlanFormatOption

if TYPE_CHECKING:
    from reconciler.values.plan import Plan
    from reconciler.workspace.workspace import Workspace

app = new_app()


@app.command()
def show(
    ctx: typer.Context,
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            help="Its digest as `bai history` shows it, may be short; or a file by `bai plan --out`.",
        ),
    ],
    format: PlanFormatOption = PlanFormat.text,
    details: Details = False,
    no_pager: NoPager = False,
) -> None:
    """Show a plan that was carried out, or a saved one: what it changes, where it puts things, why the
    rest waits.

    Of those that were carried out, the newest hundred of a cluster are kept.
    """
    from bai.cli.plans.show_plan import read_plan, show_plan

    settings = settings_of(ctx)
    saved = read_plan(Path(plan)) if Path(plan).is_file() else None
    with settings.reading_workspace() as workspace:
        found = saved or _carried_out(workspace, plan)
        view = PlanView(details, not no_pager)
        show_plan(settings, workspace, found, format, offline=True, view=view)


def _carried_out(workspace: Workspace, digest: str) -> Plan:
    """Raises NoSuchResource and AmbiguousName."""
    from reconciler.values.encoding.plan_json import load_plan
    from schemas.problems.errors.command import AmbiguousName, NoSuchResource

    found = workspace.store.saved_plans(workspace.cluster.name, digest) if workspace.has_store else {}
    if not found:
        hint = "`bai history` lists them; no file of this name is here either"
        raise NoSuchResource(what="plan", name=digest, hint=hint)
    if len(found) > 1:
        raise AmbiguousName(name=digest, candidates=", ".join(one[:16] for one in found))
    return load_plan(next(iter(found.values())))
