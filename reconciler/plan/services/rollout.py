"""Which replicas come and go next, as Kubernetes' Deployments do it: never more than `surge` above what is
wanted, never more than `unavailable` below. Pure.

Source of the bounds: `maxSurge` and `maxUnavailable` of Deployments. Unlike there, what has to leave its node
is replaced by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.plan.services.goal import Goal
from reconciler.plan.services.replicas import Replica
from schemas.kinds.service import UpdateRules


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """`create`: a generation for each new replica; `outdated`: those that are to go, of which `remove` go
    now."""

    create: tuple[str, ...] = ()
    remove: tuple[Replica, ...] = ()
    outdated: tuple[Replica, ...] = ()


def next_step(goal: Goal, rules: UpdateRules, replicas: Sequence[Replica]) -> RolloutStep:
    """What is done now; nothing where all is as it is to be, or has to wait for replicas to get ready."""
    wanted = sum(goal.counts.values())
    current, outdated = _sorted_out(goal, replicas)
    room = wanted + rules.surge - sum(not each.lost for each in replicas)
    available = sum(each.phase == "ready" for each in replicas)
    remove = []
    for each in outdated:
        if each.phase == "ready":
            if available - 1 < wanted - rules.unavailable:
                continue
            available -= 1
        elif each.unknown or (each.lost and available < wanted - rules.unavailable):
            continue
        remove.append(each)
    room += sum(not each.lost for each in remove)
    missing = [
        name
        for name, count in sorted(goal.counts.items(), key=lambda item: (item[0] != goal.target, item[0]))
        for _ in range(count - sum(each.generation == name for each in current))
    ]
    return RolloutStep(tuple(missing[: max(0, room)]), tuple(remove), tuple(outdated))


_LEAST_USE = {"ended": 0, "away": 1, "waiting": 2, "unready": 3, "starting": 4, "ready": 5}


def _sorted_out(goal: Goal, replicas: Sequence[Replica]) -> tuple[list[Replica], list[Replica]]:
    """Those that are to be, and those that are to go, the least useful of these first."""
    current: list[Replica] = []
    outdated: list[Replica] = []
    taken: dict[str, int] = {}
    best = sorted(replicas, key=lambda each: (bool(each.leaving), -_LEAST_USE[each.phase], each.number))
    for each in best:
        if not each.leaving and taken.get(each.generation, 0) < goal.counts.get(each.generation, 0):
            taken[each.generation] = taken.get(each.generation, 0) + 1
            current.append(each)
        else:
            outdated.append(each)
    outdated.sort(key=lambda each: (_LEAST_USE[each.phase], not each.leaving, -each.number, each.id))
    return current, outdated
