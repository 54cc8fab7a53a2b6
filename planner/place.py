"""The one entry of the planner: a snapshot in; placements, waits with reasons, and metrics out.

Pure and deterministic: the same snapshot gives the same outcome, byte for byte. Nothing is raised for a
snapshot that validates: what
cannot be is a wait with a reason or a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.demand import demand_of
from planner.fragmentation import typical
from planner.group import GroupResult, GroupRun
from planner.queue.base import QueuePolicy
from planner.queue.drf import drf
from planner.queue.fair_share import fair_share
from planner.queue.fifo import fifo
from planner.queue.lifo import lifo
from planner.quota import Ledger
from planner.selection.base import SelectionFactory
from planner.selection.choose import Chooser
from planner.selection.concentrated import Concentrated
from planner.selection.dispersed import Dispersed
from planner.selection.least_fragmentation import LeastFragmentation
from planner.selection.roundrobin import RoundRobin
from planner.snapshot import Machines, World
from planner.types import GroupInfo, NodeInfo, Outcome, Reason, Running, SessionRequest, Snapshot, Wait


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies by the names that groups use; plugins are added by whoever calls `place`."""

    queue: Mapping[str, QueuePolicy]
    selection: Mapping[str, SelectionFactory]


BUILT_IN = Policies(
    queue={"fifo": fifo, "lifo": lifo, "drf": drf, "fair-share": fair_share},
    selection={
        "concentrated": Concentrated,
        "dispersed": Dispersed,
        "roundrobin": RoundRobin,
        "least-fragmentation": LeastFragmentation,
    },
)


def place(snapshot: Snapshot, policies: Policies = BUILT_IN) -> Outcome:
    """Decide where every pending session goes or why it waits.

    Groups are planned in the snapshot's order; quotas span them all.
    """
    worlds, warnings = _worlds(snapshot)
    ledger = Ledger(snapshot.quotas)
    for one in snapshot.running:
        ledger.take(one.request)
    ledger.close_before()
    pending: dict[str, list[SessionRequest]] = {}
    for session in snapshot.pending:
        pending.setdefault(session.group, []).append(session)
    results = [
        _group(snapshot, group, worlds[group.name], policies, ledger, pending.pop(group.name, []))
        for group in snapshot.groups
    ]
    lost = [session for sessions in pending.values() for session in sessions]
    return Outcome(
        placements=tuple(placement for result in results for placement in result.placements),
        waits=tuple(wait for result in results for wait in result.waits) + tuple(_lost(lost)),
        quotas=ledger.uses(),
        groups=tuple(result.use for result in results if result.use is not None),
        warnings=tuple(warnings) + tuple(text for result in results for text in result.warnings),
    )


def _worlds(snapshot: Snapshot) -> tuple[dict[str, World], list[str]]:
    """One world per group with the running sessions on it, and what of their records cannot be true."""
    machines = Machines()
    members: dict[str, list[NodeInfo]] = {group.name: [] for group in snapshot.groups}
    for node in snapshot.nodes:
        members.setdefault(node.group, []).append(node)
    worlds = {name: World(nodes, machines) for name, nodes in members.items()}
    world_of = {node.name: worlds[node.group] for node in snapshot.nodes}
    warnings = []
    for one in snapshot.running:
        for kernel in one.placement.kernels:
            world = world_of.get(kernel.node)
            if world is None:
                warnings.append(
                    f"{one.request.id} is recorded on node {kernel.node}, which is not in the snapshot"
                )
                continue
            wrong = world.restore(world.index[kernel.node], one.request.id, kernel)
            warnings += [f"{one.request.id} is recorded on {kernel.node} with {what}" for what in wrong]
    return worlds, warnings


def _group(
    snapshot: Snapshot,
    group: GroupInfo,
    world: World,
    policies: Policies,
    ledger: Ledger,
    pending: list[SessionRequest],
) -> GroupResult:
    policy = policies.queue.get(group.queue)
    factory = policies.selection.get(group.selection)
    if policy is None or factory is None:
        kind, name = ("queue", group.queue) if policy is None else ("selection", group.selection)
        names = sorted(policies.queue if policy is None else policies.selection)
        text = f"group {group.name} names the {kind} policy {name}, which is not installed"
        return GroupResult(
            waits=_all_wait(pending, Reason("no-policy", f"{text}; known: {', '.join(names)}"))
        )
    running = [one for one in snapshot.running if one.request.group == group.name]
    known = [*pending, *(one.request for one in running)]
    world.requests = lambda: typical(
        (demand_of(kernel, session, group), session.gpu_models)
        for session in known
        for kernel in session.kernels
    )
    chooser = Chooser(world, group.selection, factory(group, world), _turn(world, running))
    return GroupRun(group, chooser, policy, ledger, running, snapshot.now, snapshot.usage).run(pending)


def _turn(world: World, running: list[Running]) -> int:
    """Where round robin goes on: after the node of the session that started last."""
    started = [(one.started or 0.0, one.request.id, one.placement) for one in running]
    for _, _, placement in sorted(started, key=lambda one: one[:2], reverse=True):
        if placement.kernels and placement.kernels[-1].node in world.index:
            return (world.index[placement.kernels[-1].node] + 1) % len(world.nodes)
    return 0


def _lost(sessions: list[SessionRequest]) -> list[Wait]:
    return [
        wait
        for session in sessions
        for wait in _all_wait(
            [session], Reason("no-group", f"there is no resource group {session.group or '(none)'}")
        )
    ]


def _all_wait(sessions: list[SessionRequest], reason: Reason) -> list[Wait]:
    return [
        Wait(session.id, session.group, position, (reason,), skips=session.skips)
        for position, session in enumerate(sessions, start=1)
    ]


__all__ = ["BUILT_IN", "Policies", "place"]
