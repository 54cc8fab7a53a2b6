"""The one entry of the planner: a snapshot in; placements, waits with reasons, and metrics out.

Pure and deterministic: the same snapshot gives the same outcome, byte for byte. Nothing is raised for a
snapshot that validates: what
cannot be is a wait with a reason or a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planner.admission.quota import Ledger
from planner.batch.repack import repack
from planner.model.types import GroupInfo, Outcome, Reason, SessionRequest, Snapshot, Wait
from planner.queue.base import QueuePolicy
from planner.queue.drf import drf
from planner.queue.fair_share import fair_share
from planner.queue.fifo import fifo
from planner.queue.lifo import lifo
from planner.resource_group import GroupResult, GroupRun, Memory
from planner.selection.base import SelectionFactory
from planner.selection.choose import Chooser
from planner.selection.concentrated import Concentrated
from planner.selection.dispersed import Dispersed
from planner.selection.least_fragmentation import LeastFragmentation
from planner.selection.roundrobin import RoundRobin
from planner.selection.worlds import make_chooser, make_worlds


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
    outcome = _place(snapshot, policies)
    for group in snapshot.groups:
        if group.packing == "whole-queue":
            outcome = repack(snapshot, group, outcome, lambda again: _place(again, policies))
    return outcome


def _place(snapshot: Snapshot, policies: Policies) -> Outcome:
    worlds, warnings = make_worlds(snapshot)

    def stage(group: GroupInfo, factory: SelectionFactory) -> Stage:
        return Stage(make_chooser(snapshot, group, worlds[group.name], factory))

    outcome = place_on(snapshot, stage, policies)
    return replace(outcome, warnings=(*warnings, *outcome.warnings))


@dataclass(frozen=True, slots=True)
class Stage:
    """What one group is decided on: its chooser, over a world that holds what runs already."""

    chooser: Chooser
    memory: Memory | None = None


def place_on(
    snapshot: Snapshot,
    stage: Callable[[GroupInfo, SelectionFactory], Stage],
    policies: Policies = BUILT_IN,
    *,
    explained: bool = True,
) -> Outcome:
    """`place` on worlds that are there already, and that hold what was placed and not what was pushed out
    afterwards."""
    ledger = Ledger(snapshot.quotas, {group.name: group.fractional for group in snapshot.groups})
    for one in snapshot.running:
        ledger.take(one.request)
    ledger.close_before()
    pending: dict[str, list[SessionRequest]] = {}
    for session in snapshot.pending:
        pending.setdefault(session.group, []).append(session)
    results = [
        _group(snapshot, group, stage, policies, ledger, pending.pop(group.name, []), explained=explained)
        for group in snapshot.groups
    ]
    lost = [session for sessions in pending.values() for session in sessions]
    return Outcome(
        placements=tuple(placement for result in results for placement in result.placements),
        waits=tuple(wait for result in results for wait in result.waits) + tuple(_lost(lost)),
        quotas=ledger.uses(),
        groups=tuple(result.use for result in results if result.use is not None),
        warnings=tuple(text for result in results for text in result.warnings),
        evictions=tuple(one for result in results for one in result.evictions),
    )


def _group(
    snapshot: Snapshot,
    group: GroupInfo,
    stage: Callable[[GroupInfo, SelectionFactory], Stage],
    policies: Policies,
    ledger: Ledger,
    pending: list[SessionRequest],
    *,
    explained: bool,
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
    on = stage(group, factory)
    turn = GroupRun(
        group, on.chooser, policy, ledger, running, snapshot.now, snapshot.usage, memory=on.memory
    )
    return turn.run(pending, explained=explained)


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


__all__ = ["BUILT_IN", "Policies", "Stage", "place", "place_on"]
