"""`bai capacity`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import HowPlan, Offline
from bai.settings import settings_of

app = new_app()


@app.command()
def capacity(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Only this resource group.")] = None,
    format: HowPlan = PlanFormat.text,
    offline: Offline = False,
) -> None:
    """Show what each resource group has, gives and still fits, before and after the plan (`12 -> 9`)."""
    from bai.cli.output import print_json, show_report
    from bai.cli.resource_names import resolve
    from bai.render.analysis.capacity import as_json, sections
    from planner.advice.capacity import capacities

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        known = [f"ResourceGroup/{name}" for name in workspace.desired().groups]
        only = resolve(group, known, "ResourceGroup").partition("/")[2] if group else ""
        study = workspace.study(offline=offline)
        found = [one for one in capacities(study.before, study.after) if not only or one.group == only]
    if format is PlanFormat.json:
        print_json("bai.capacity/v1", groups=[as_json(one) for one in found])
        return
    show_report(settings, sections(found), format)
