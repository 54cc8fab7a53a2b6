"""The planner's view of the cluster before and after a plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.model.types import NodeInfo, Placement, Running, Snapshot
from reconciler.plan.context import PlanContext
from reconciler.plan.place.held_placements import held_now
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.plan.place.snapshot import make_snapshot, running_session
from reconciler.values.state import Actual, Desired, Existing


def snapshot_before(context: PlanContext) -> Snapshot:
    """The cluster as it is; nobody waits in it."""
    return _snapshot(context, held_now(context.actual))


def snapshot_after(context: PlanContext, result: PlacementResult) -> Snapshot:
    """The cluster once the plan is carried out; pending are those who still wait."""
    asked = result.snapshot
    if asked is None:
        return _snapshot(context, ())
    requests = {one.id: one for one in asked.pending}
    placed = [
        Running(requests[one.session], one, asked.now)
        for one in result.outcome.placements
        if one.session in requests
    ]
    started = {one.placement.session for one in placed}
    evicted = result.evictions
    stay = tuple(one for one in asked.running if one.request.id not in evicted)
    left = (one for one in asked.pending if one.id not in started)
    waiting = tuple(one for one in left if one.replica_of is None or not one.replica_of.held)
    waiting += tuple(one.request for one in asked.running if one.request.id in evicted)
    return replace(asked, running=(*stay, *placed), pending=waiting, held=result.outcome.held)


def snapshot_now(desired: Desired, actual: Actual, nodes: Mapping[str, NodeInfo], now: float) -> Snapshot:
    """The cluster as it is, where nobody has planned; nobody waits in it. Sessions may be pushed out but for
    those that are protected."""
    wanted, held = desired.sessions(), held_now(actual)
    movable = {
        item.id
        for item, _ in held
        if not item.protected and not (item.id in wanted and wanted[item.id].protected)
    }
    running = [running_session(item, at, desired, nodes, movable=item.id in movable) for item, at in held]
    return make_snapshot(desired, actual, nodes, running, (), now)


def _snapshot(context: PlanContext, held: Iterable[tuple[Existing, Placement]]) -> Snapshot:
    running = [running_session(*one, context.desired, context.nodes) for one in held]
    return make_snapshot(context.desired, context.actual, context.nodes, running, (), context.time.seconds)
