"""`bai apply` with services: their replicas are waited for, and one plan follows the other, until each
service is as its document says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.values.plan import Plan
    from reconciler.values.services.status import ServiceStatus
    from reconciler.workspace.workspace import Workspace

_BETWEEN = 1.0
"""Seconds between two looks at replicas."""


def follow_rollouts(
    settings: Settings, workspace: Workspace, announced: Plan, parallel: int,
    *, wait: Callable[[float], None] = time.sleep,
) -> bool:  # fmt: skip
    """Plans of the services of `announced` alone, for as long as one of them is on its way. True unless
    something failed, or a generation was given up. Whoever is interrupted leaves the rest to a loop, or the
    next `bai apply`."""
    from bai.cli.plans.execute_plan import execute_completely
    from reconciler.guards.judge import raise_if_violated
    from reconciler.values.plan_options import PlanOptions

    services = tuple(each.service for each in announced.services if each.phase == "progressing")
    if not services:
        return True
    told: dict[str, str] = {}
    while True:
        plan = workspace.plan(PlanOptions(targets=services))
        for line in _news(plan, services, told):
            typer.echo(line)
        if not plan.changes:
            if not any(_goes_on(each) for each in plan.services if each.service in services):
                return not any(each.phase == "failed" for each in plan.services if each.service in services)
            wait(_BETWEEN)
            continue
        raise_if_violated(plan)
        if not execute_completely(settings, workspace, plan, parallel, quiet=True):
            return False


def _goes_on(status: ServiceStatus) -> bool:
    """Whether something will happen without anybody's doing: what waits for room may wait for ever."""
    return status.phase == "progressing" and bool(status.count("new", "starting", "unready", "ended"))


def _news(plan: Plan, services: tuple[str, ...], told: dict[str, str]) -> Iterator[str]:
    from bai.render.plan.services import rollout_line

    for each in plan.services:
        if each.service in services:
            line = rollout_line(each)
            if told.get(each.service) != line.text:
                told[each.service] = line.text
                yield f"{line.service}  {line.text}"
