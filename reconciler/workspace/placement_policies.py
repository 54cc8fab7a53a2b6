"""Queue and selection policies by the names that groups use; strangers' are loaded only when named."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.batch.time_limit import PackingTime
from reconciler.workspace.activity import NOBODY_WAITS, ActivityListener
from schemas.plugins.entry_points import BUILT_IN, QUEUE, SELECTION, entry_point_names, load_entry_points

if TYPE_CHECKING:
    from planner.model.types import Outcome, Snapshot
    from planner.policies import Policies
    from reconciler.plan.context import Planner
    from reconciler.values.state import Desired


def planner_for(desired: Desired, activity: ActivityListener = NOBODY_WAITS) -> Planner:
    """`place` with the policies that the groups of this cluster name; an unknown name is left to the
    planner, which says so. For one plan, which packing whole queues holds up no longer than groups allow."""
    groups = desired.groups.values()
    return _Planner(
        frozenset(group.spec.queue for group in groups),
        frozenset(group.spec.selection for group in groups),
        PackingTime(time.monotonic),
        activity,
    )


@dataclass(frozen=True, slots=True)
class _Planner:
    """Equal where the same policies are named, so that plans made with it can be recognised."""

    queues: frozenset[str]
    selections: frozenset[str]
    packing: PackingTime = field(compare=False)
    activity: ActivityListener = field(compare=False)

    def __call__(self, snapshot: Snapshot) -> Outcome:
        from planner.place import place

        policies = load_policies(self.queues, self.selections)
        return place(snapshot, policies, self.packing, on_group=self._tell_group)

    def _tell_group(self, group: str) -> None:
        self.activity.detail(f"group {group}")


def load_policies(queues: Iterable[str], selections: Iterable[str]) -> Policies:
    """The built-in policies and, of the installed ones, those that are named."""
    from planner.policies import Policies

    return Policies(
        queue=load_entry_points(QUEUE, {*BUILT_IN[QUEUE], *queues}),
        selection=load_entry_points(SELECTION, {*BUILT_IN[SELECTION], *selections}),
    )


def policy_names() -> dict[str, list[str]]:
    """`queue` and `selection` → the names of all policies that there are, without loading one."""
    return {"queue": entry_point_names(QUEUE), "selection": entry_point_names(SELECTION)}
