"""`bai destroy`."""

from __future__ import annotations

import typer

from bai.cli.context import waiting_settings
from bai.cli.formats import PlanFormat, PlanView
from bai.cli.lazy_commands import new_app
from bai.cli.options import Parallel, Targets, Yes

app = new_app()


@app.command()
def destroy(
    ctx: typer.Context,
    target: Targets = None,
    yes: Yes = False,
    parallel: Parallel = 32,
) -> None:
    """Stop and remove everything that this repository runs in the cluster, and forget it."""
    from bai.actor import current_actor
    from bai.cli.confirm import confirm
    from bai.cli.plans.execute_plan import execute_completely
    from bai.cli.plans.show_plan import show_plan
    from bai.queries.names.resource_names import resolve_targets
    from bai.render.plan.sections import plan_summary
    from reconciler.guards.judge import raise_if_violated
    from reconciler.values.plan_options import PlanOptions

    settings = waiting_settings(ctx)
    with settings.workspace() as workspace:
        targets = resolve_targets(target or (), workspace.desired(), workspace.existing_store)
        plan = workspace.plan(PlanOptions(targets=targets, destroy=True))
        view = PlanView(everything="`bai plan --destroy --details`")
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False, view=view)
        raise_if_violated(plan)
        if not plan.changes:
            return
        typer.echo("")
        confirm(f"{plan_summary(plan)} Really destroy?", yes=yes)
        wrong = () if targets else workspace.settle_node_requests(plan, None, current_actor())
        for line in wrong:
            typer.echo(f"warning: {line}", err=True)
        if not execute_completely(settings, workspace, plan, parallel, destroys=True):
            raise typer.Exit(1)
