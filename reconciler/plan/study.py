"""A plan together with what the planner saw, for those who explain it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from planner.model.types import SessionRequest, Snapshot
from reconciler.plan.context import PlanContext
from reconciler.plan.place.cluster_views import snapshot_after, snapshot_before
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.values.plan import Plan
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual


@dataclass(frozen=True)
class Study:
    """Made by the pipeline; read by `bai explain` and by reviews. What was decided, and the cluster before
    and after it."""

    plan: Plan
    context: PlanContext
    placed: PlacementResult

    @cached_property
    def before(self) -> Snapshot:
        """The cluster as it is; nobody waits in it."""
        return snapshot_before(self.context)

    @cached_property
    def after(self) -> Snapshot:
        """The cluster once the plan is carried out; pending are those who still wait."""
        return snapshot_after(self.context, self.placed)

    def request(self, identity: str) -> SessionRequest | None:
        """A session as the planner was asked for it, wherever it is now."""
        here = [*self.after.pending, *(one.request for one in self.after.running)]
        return next((one for one in here if one.id == identity), None)

    def carried_out(self, actual: Actual, done: Collection[str]) -> Study:
        """What is left of it once those actions (by resource) are done, and `actual` is what came of that:
        whoever has ended meanwhile, and is not to be started again, neither holds anything nor waits any
        more. Nobody is placed anew."""
        unfinished = {each.id for each in self.plan.changes} - set(done)
        over = frozenset(_ended_meanwhile(self.context.actual, actual)) - unfinished
        placed = self.placed
        if over:
            placed = replace(
                placed,
                snapshot=_without(placed.snapshot, over),
                waits={name: wait for name, wait in placed.waits.items() if name not in over},
            )
        left = tuple(each for each in self.plan.actions if each.id not in done)
        return Study(replace(self.plan, actions=left), replace(self.context, actual=actual), placed)


def _ended_meanwhile(before: Actual, now: Actual) -> Iterator[str]:
    yield from before.existing.keys() - now.existing.keys()
    for name, item in now.existing.items():
        if item.phase in ENDED:
            was = before.existing.get(name)
            known = was is not None and was.recorded.generation == item.recorded.generation
            if was is None or not known or was.phase not in ENDED:
                yield name


def _without(snapshot: Snapshot | None, sessions: Collection[str]) -> Snapshot | None:
    if snapshot is None:
        return None
    return replace(
        snapshot,
        running=tuple(each for each in snapshot.running if each.request.id not in sessions),
        pending=tuple(each for each in snapshot.pending if each.id not in sessions),
    )
