"""`bai capacity`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import Offline, PlanFormatOption
from schemas.values.resource_ref import identity_of, ref_of

app = new_app()


@app.command()
def capacity(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Only this resource group.")] = None,
    format: PlanFormatOption = PlanFormat.text,
    offline: Offline = False,
) -> None:
    """Show what each resource group has, gives and still fits, before and after the plan (`12 -> 9`)."""
    from bai.cli.output import print_json, print_report
    from bai.cli.resource_names import resolve_name
    from bai.render.analysis.capacity import capacity_json, capacity_sections
    from planner.advice.capacity import capacities
    from reconciler.workspace.placement_policies import planner_for

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        known = [identity_of("ResourceGroup", name) for name in workspace.desired().groups]
        only = ref_of(resolve_name(group, known, "ResourceGroup")).name if group else ""
        study = workspace.study(offline=offline)
        place = planner_for(workspace.desired())
        every = capacities(study.before, study.after, place)
    found = [one for one in every if not only or one.group == only]
    if format is PlanFormat.json:
        print_json("bai.capacity/v1", groups=[capacity_json(one) for one in found])
        return
    print_report(settings, capacity_sections(found), format)
