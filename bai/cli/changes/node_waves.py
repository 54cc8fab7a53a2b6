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


def asking() -> Callable[[ProvisionEvent], None]:
    """Says once, to somebody who waits at a terminal, that nodes are asked what would change on them."""
    said: list[str] = []

    def tell(event: ProvisionEvent) -> None:
        if not said and sys.stderr.isatty():
            said.append(event.what)
            typer.echo(
                "Asking the nodes' roles what they would change (--no-check leaves that out) ...", err=True
            )

    return tell


def carry_on(
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
    from bai.cli.changes.execute_plan import carried_out
    from reconciler.provisioning.wave_sequence import nodes_done

    plan, good, done = announced, True, frozenset[str]()
    while True:
        result = carried_out(settings, workspace, plan, parallel)
        good = good and result.ok
        new = nodes_done(plan, result)
        if result.interrupted or not new or len(new) < len(plan.rollout.wave if plan.rollout else ()):
            return good and not result.interrupted
        done |= new
        plan = make()
        if not _goes_on(settings, workspace, announced, plan, done, yes=yes):
            return good


def _goes_on(
    settings: Settings, workspace: Workspace, announced: Plan, plan: Plan, done: frozenset[str], *, yes: bool
) -> bool:
    """Say what comes next; whether it is to be carried out. Raises NotConfirmed, ProvisioningFailed."""
    from bai.cli.changes.show_plan import show_plan
    from bai.cli.confirm import confirm
    from bai.cli.formats import PlanFormat
    from bai.render.plan.node_rollout import rollout_lines
    from bai.render.plan.sections import summary
    from reconciler.provisioning.wave_sequence import again, beyond
    from schemas.problems.errors import ProvisioningFailed

    if back := again(done, plan):
        whys = {action.id: action.why for action in plan.changes}
        why = f"it was, and is to be provisioned again: {whys.get(f'Node/{back[0]}', '')}"
        raise ProvisioningFailed(node=back[0], why=why)
    typer.echo("")
    if not plan.changes:
        for line in rollout_lines(plan):
            typer.echo(line)
        typer.echo(summary(plan))
        return False
    if beyond(announced, plan) and not yes:
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
        typer.echo("")
        confirm(f"{summary(plan)} This was not announced before. Go ahead?", yes=yes)
    elif plan.rollout is not None and plan.rollout.wave:
        typer.echo(f"Next wave: {', '.join(plan.rollout.wave)}. {summary(plan)}")
    else:
        show_plan(settings, workspace, plan, PlanFormat.text, offline=False)
    return True


def say_left(plan: Plan) -> None:
    """After a saved plan, which is one wave and no more."""
    if plan.rollout is not None and plan.rollout.later:
        left = sum(map(len, plan.rollout.later))
        words = "1 node is" if left == 1 else f"{left} nodes are"
        typer.echo(f"{words} left to provision: `bai apply` goes on, or plan again.")
