"""`bai apply` with nodes to provision: one wave after the other, then the sessions, in one command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from bai.settings import Settings

if TYPE_CHECKING:
    from providers.provisioning import ProvisionEvent
    from reconciler.values.plan import Plan
    from reconciler.workspace.workspace import Workspace


def role_check_announcer() -> Callable[[ProvisionEvent], None]:
    """Says once, to somebody who waits at a terminal, that nodes are asked what would change on them."""
    announced_events: list[str] = []

    def tell(event: ProvisionEvent) -> None:
        if not announced_events and sys.stderr.isatty():
            announced_events.append(event.what)
            typer.echo(
                "Asking the nodes' roles what they would change (--no-check leaves that out) ...", err=True
            )

    return tell


def execute_waves(
    settings: Settings,
    workspace: Workspace,
    announced: Plan,
    parallel: int,
    *,
    yes: bool,
    make: Callable[[], Plan],
) -> bool:
    """Carry out `announced`, and the plans after it for as long as nodes are provisioned; `make` gives the
    next one. Asks again only about what was not announced. True when everything was done."""
    from bai.cli.plans.execute_plan import execute_plan
    from reconciler.provisioning.wave_sequence import provisioned_nodes

    plan, good, done = announced, True, frozenset[str]()
    while True:
        result = execute_plan(settings, workspace, plan, parallel)
        good = good and result.ok
        new = provisioned_nodes(plan, result)
        if result.interrupted or not new or len(new) < len(plan.rollout.wave if plan.rollout else ()):
            return good and not result.interrupted
        done |= new
        plan = make()
        if not _announce_next(settings, workspace, announced, plan, done, yes=yes):
            return good


def _announce_next(
    settings: Settings, workspace: Workspace, announced: Plan, plan: Plan, done: frozenset[str], *, yes: bool
) -> bool:
    """Say what comes next; whether it is to be carried out. Raises NotConfirmed, ProvisioningFailed."""
    from bai.cli.confirm import confirm
    from bai.cli.formats import PlanFormat
    from bai.cli.plans.show_plan import show_plan
    from bai.render.plan.node_rollout import rollout_lines
    from bai.render.plan.sections import plan_summary
    from reconciler.provisioning.wave_sequence import reprovisioned_nodes, unannounced_changes
    from schemas.problems.errors.provisioning import ProvisioningFailed

    if back := reprovisioned_nodes(done, plan):
        whys = {action.id: action.why for action in plan.changes}
        why = f"it was, and is to be provisioned again: {whys.get(f'Node/{back[0]}', '')}"
        raise ProvisioningFailed(node=back[0], why=why)
    typer.echo("")
    if not plan.changes:
        for line in rollout_lines(plan):
            typer.echo(line)
        typer.echo(plan_summary(plan))
        return False
    if unannounced_changes(announced, plan) and not yes:
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
        typer.echo("")
        confirm(f"{plan_summary(plan)} This was not announced before. Go ahead?", yes=yes)
    elif plan.rollout is not None and plan.rollout.wave:
        typer.echo(f"Next wave: {', '.join(plan.rollout.wave)}. {plan_summary(plan)}")
    else:
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
    return True


def print_remaining_nodes(plan: Plan) -> None:
    """After a saved plan, which is one wave and no more."""
    if plan.rollout is not None and plan.rollout.later:
        left = sum(map(len, plan.rollout.later))
        words = "1 node is" if left == 1 else f"{left} nodes are"
        typer.echo(f"{words} left to provision: `bai apply` goes on, or plan again.")
