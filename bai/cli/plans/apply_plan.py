"""`bai apply`: a new plan that is asked about, a saved one, or only a look at what runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import PlanFormat
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.cli.plans.post_review import ReviewedChange
    from reconciler.values.plan_options import PlanOptions
    from reconciler.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class NewPlan:
    """How a new plan is made and carried out. `options` name things as a person does; `hardware`: nodes are
    probed anew; `check`: roles say what they would change; `wait`: updates of services are followed."""

    options: PlanOptions
    parallel: int
    yes: bool
    hardware: bool
    check: bool
    wait: bool


def apply_new(settings: Settings, way: NewPlan, reviewed_change: ReviewedChange | None) -> None:
    """Raises NotConfirmed, and what planning and applying raise."""
    from bai.cli.confirm import confirm
    from bai.cli.plans.node_waves import execute_waves, role_check_announcer
    from bai.cli.plans.service_rollouts import follow_rollouts
    from bai.cli.plans.show_plan import print_if_nothing_moves, show_plan
    from bai.queries.names.resource_names import resolve_plan_options
    from bai.render.plan.sections import plan_summary
    from reconciler.guards.judge import raise_if_violated
    from reconciler.values.plan_options import PlanOptions

    with settings.workspace(acting=True) as workspace:
        if way.hardware:
            workspace.find_hardware(reprobe=True)
        options = resolve_plan_options(way.options, workspace.desired(), workspace.existing_store)
        tell = role_check_announcer() if way.check else None
        actual = workspace.actual()
        if reviewed_change is not None:
            reviewed_change.check(settings, workspace, actual)
        plan = workspace.plan(options, actual=actual, on_role_check=tell)
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
        if options.most_moves:
            print_if_nothing_moves(plan)
        raise_if_violated(plan)
        if not plan.changes:
            _record_observed(workspace)
            return
        typer.echo("")
        confirm(f"{plan_summary(plan)} Go ahead?", yes=way.yes)
        again = partial(workspace.plan, PlanOptions(targets=options.targets))
        if not execute_waves(settings, workspace, plan, way.parallel, yes=way.yes, make=again):
            raise typer.Exit(1)
        if way.wait and not follow_rollouts(settings, workspace, plan, way.parallel):
            raise typer.Exit(1)


def apply_saved(settings: Settings, path: Path, parallel: int) -> None:
    """Carry out a plan as it was saved, whatever the documents say by now; where they say something else,
    tell what that is."""
    from bai.cli.plans.execute_plan import execute_completely
    from bai.cli.plans.node_waves import print_remaining_nodes
    from bai.cli.plans.show_plan import read_plan
    from bai.render.plan.sections import plan_summary
    from reconciler.guards.judge import raise_if_violated
    from reconciler.plan.decide.node_health import refuse_unfit

    plan = read_plan(path)
    with settings.workspace(acting=True) as workspace:
        typer.echo(plan_summary(plan))
        raise_if_violated(plan)
        refuse_unfit(plan, lambda: workspace.actual().health)
        if not execute_completely(settings, workspace, plan, parallel):
            raise typer.Exit(1)
        if plan.tree != workspace.desired().tree:
            typer.echo("The documents have changed since this plan was saved. What `bai apply` would do now:")
            typer.echo(plan_summary(workspace.plan()))
    print_remaining_nodes(plan)


def _record_observed(workspace: Workspace) -> None:
    """Write down what was seen, also where there is nothing to do; whoever applies now does it instead."""
    from contextlib import suppress

    from bai.actor import current_actor
    from schemas.problems.errors.store import LeaseHeld

    with suppress(LeaseHeld):
        workspace.refresh(holder=current_actor())


def refresh(settings: Settings, *, hardware: bool) -> None:
    """Write down what is seen; change nothing that runs."""
    from bai.actor import current_actor
    from bai.render.humanize import plural

    with settings.workspace() as workspace:
        if hardware:
            workspace.find_hardware(reprobe=True)
        actual = workspace.refresh(holder=current_actor())
    typer.echo(f"Recorded what was seen of {plural(len(actual.existing), 'resource')}.")
    for error in actual.errors:
        typer.echo(f"warning: {error}", err=True)
