"""The provisioning of nodes in words: what would change on them, which wave they are in, how far they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.render.humanize import clean, join_limited, plural, short_name

if TYPE_CHECKING:
    from providers.provisioning import ProvisionEvent, TaskChange
    from reconciler.values.plan import Action, Plan
    from reconciler.values.rollout import Rollout

MOST_TASKS = 12
_MOST_LINES = 6


def node_details(action: Action, plan: Plan) -> Iterator[str]:
    """What stands under a node that is provisioned: whoever leaves it first, and what its roles would do."""
    provision = action.provision
    if provision is None or plan.rollout is None:
        return
    rollout, node = plan.rollout, provision.node
    if leaving := rollout.leaves.get(node):
        yield f"first it is left by {join_limited(map(short_name, leaving))}"
    if node in rollout.unsure:
        yield f"what would change is not known: {clean(rollout.unsure[node])}"
    elif node in rollout.tasks:
        yield from _task_lines(rollout.tasks[node])
    else:
        yield f"roles: {join_limited(map(clean, provision.roles))}"


def _task_lines(tasks: tuple[TaskChange, ...]) -> Iterator[str]:
    if not tasks:
        yield "its roles would change nothing"
    for task in tasks[:MOST_TASKS]:
        yield f"{clean(task.role) or 'play'}: {clean(task.task)}"
        lines = [line for line in task.diff.splitlines() if line.strip()]
        yield from (f"  {clean(line)}" for line in lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            yield f"  ({plural(len(lines) - _MOST_LINES, 'more line')})"
    if len(tasks) > MOST_TASKS:
        yield f"and {plural(len(tasks) - MOST_TASKS, 'more task')}"


def rollout_lines(plan: Plan) -> list[str]:
    """The waves, and what waits."""
    rollout = plan.rollout
    if rollout is None:
        return []
    return [*_wave_lines(rollout), *(f"{clean(one.node)} waits: {clean(one.why)}" for one in rollout.waits)]


def _wave_lines(rollout: Rollout) -> Iterator[str]:
    if rollout.wave:
        yield f"this wave: {join_limited(map(clean, rollout.wave))}{_task_count(rollout, rollout.wave)}"
    for wave in rollout.later:
        moved = sorted({session for node in wave for session in rollout.leaves.get(node, ())})
        left = f", left by {join_limited(map(short_name, moved))}" if moved else ""
        yield f"then: {join_limited(map(clean, wave))}{left}{_task_count(rollout, wave)}"
    if rollout.wave:
        yield f"out of use at the same time: at most {plural(rollout.most, 'node')} that serve"


def _task_count(rollout: Rollout, wave: tuple[str, ...]) -> str:
    """How much the roles would do, where they were asked."""
    known = [len(rollout.tasks[node]) for node in wave if node in rollout.tasks]
    if not known:
        return ""
    few, many = min(known), max(known)
    amount = plural(few, "task") if few == many else f"{few} to {plural(many, 'task')}"
    return f" ({amount} would change something{' each' if len(wave) > 1 else ''})"


def provision_event_line(event: ProvisionEvent) -> str:
    """One event of a run in words; empty for what need not be told."""
    what = ": ".join(clean(part) for part in (event.role, event.task) if part)
    match event.what:
        case "task":
            return what
        case "changed":
            return f"changed {what}"
        case "failed" | "unreachable":
            return f"{event.what} {what}: {clean(event.message)}".replace(" : ", ": ")
        case "reboot":
            return f"is rebooted{': ' + clean(event.message) if event.message else ''}"
        case "sealed":
            return "verified and sealed"
        case _:
            return ""
