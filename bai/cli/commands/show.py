"""`bai show`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import PlanFormatOption

app = new_app()


@app.command()
def show(
    ctx: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="DIGEST", help="As `bai history` shows it; may be short.")],
    format: PlanFormatOption = PlanFormat.text,
) -> None:
    """Show a plan that was carried out: what it changed, where it put things, why the rest waited.

    The newest hundred of a cluster are kept.
    """
    from bai.cli.plans.show_plan import show_plan
    from reconciler.values.encoding.plan_json import load_plan
    from schemas.problems.errors.command import AmbiguousName, NoSuchResource

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        found = workspace.store.saved_plans(workspace.cluster.name, plan) if workspace.has_store else {}
        if not found:
            raise NoSuchResource(what="plan", name=plan, hint="`bai history` lists them")
        if len(found) > 1:
            raise AmbiguousName(name=plan, candidates=", ".join(digest[:16] for digest in found))
        show_plan(settings, workspace, load_plan(next(iter(found.values()))), format, offline=True)
