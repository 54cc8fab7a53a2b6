"""`bai destroy`."""

from __future__ import annotations

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import Parallel, Targets, Yes
from bai.settings import settings_of

app = new_app()


@app.command()
def destroy(
    ctx: typer.Context,
    target: Targets = None,
    yes: Yes = False,
    parallel: Parallel = 32,
) -> None:
    """Stop and remove everything that this repository runs in the cluster, and forget it."""
    from bai.cli.changes.execute_plan import carry_out
    from bai.cli.changes.show_plan import show_plan
    from bai.cli.confirm import confirm
    from bai.cli.resource_names import targets_named
    from bai.render.plan.sections import summary
    from reconciler.guards.judge import refuse

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        plan = workspace.plan(targets=targets_named(target or (), workspace), destroy=True)
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
        refuse(plan)
        if not plan.changes:
            return
        typer.echo("")
        confirm(f"{summary(plan)} Really destroy?", yes=yes)
        if not carry_out(settings, workspace, plan, parallel):
            raise typer.Exit(1)
