"""The one entry of the planner: a snapshot in; placements, waits with reasons, and metrics out.

Pure and deterministic: the same snapshot gives the same outcome, byte for byte; where a clock is given and
cut a packing short, a warning says that it rests on that. Nothing is raised for a snapshot that validates:
what cannot be is a wait with a reason or a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from planner.admission.quota import QuotaLedger
from planner.batch.repack import repack
from planner.batch.time_limit import PackingTime
from planner.headroom.held_places import is_held_place
from planner.model.types import GroupInfo, Outcome, Reason, SessionRequest, Snapshot, Wait
from planner.policies import Policies
from planner.resource_group import GroupContext, GroupResult, GroupRun
from planner.selection.base import SelectionFactory
from planner.selection.from_snapshot import build_node_tables, build_scorer

ContextFactory = Callable[[GroupInfo, SelectionFactory], GroupContext]


def place(
    snapshot: Snapshot,
    policies: Policies,
    packing: PackingTime | None = None,
    on_group: Callable[[str], None] = lambda group: None,
) -> Outcome:
    """Decide where every pending session goes or why it waits.

    Groups are planned in the snapshot's order; quotas span them all. `packing`: the clock by which packing
    whole queues is cut short; without one it ends by its work alone. `on_group` hears the name of each group
    whose turn it is.
    """
    packing = packing or PackingTime()
    outcome = _place_as_queued(snapshot, policies, on_group)
    valid_until = [outcome.valid_until]

    def place_again(again: Snapshot) -> Outcome:
        found = _place_as_queued(again, policies, on_group)
        valid_until.append(found.valid_until)
        return found

    for group in snapshot.groups:
        if group.packing == "whole-queue":
            outcome = repack(snapshot, group, outcome, place_again, packing)
    return replace(outcome, valid_until=min(valid_until))


def _place_as_queued(snapshot: Snapshot, policies: Policies, on_group: Callable[[str], None]) -> Outcome:
    tables, warnings = build_node_tables(snapshot)

    def context(group: GroupInfo, factory: SelectionFactory) -> GroupContext:
        on_group(group.name)
        return GroupContext(build_scorer(snapshot, group, tables[group.name], factory))

    outcome = place_on_tables(snapshot, context, policies)
    return replace(outcome, warnings=(*warnings, *outcome.warnings))


def place_on_tables(
    snapshot: Snapshot, context: ContextFactory, policies: Policies, *, explained: bool = True
) -> Outcome:
    """`place` on node tables that are there already; afterwards they hold what was placed, and not what was
    pushed out."""
    ledger = QuotaLedger(snapshot.quotas, {group.name: group.fractional for group in snapshot.groups})
    for one in snapshot.running:
        ledger.take(one.request)
    for one in snapshot.held:
        ledger.take(one.request)
    ledger.mark_start()
    pending: dict[str, list[SessionRequest]] = {}
    for session in snapshot.pending:
        pending.setdefault(session.group, []).append(session)
    results = [
        _plan_group(snapshot, group, context, policies, ledger, pending.pop(group.name, []), explained)
        for group in snapshot.groups
    ]
    stray = [session for sessions in pending.values() for session in sessions if not is_held_place(session)]
    return Outcome(
        placements=tuple(placement for result in results for placement in result.placements),
        waits=tuple(wait for result in results for wait in result.waits) + tuple(_waits_without_group(stray)),
        quotas=ledger.uses(),
        groups=tuple(result.use for result in results if result.use is not None),
        warnings=tuple(text for result in results for text in result.warnings),
        evictions=tuple(one for result in results for one in result.evictions),
        held=tuple(one for result in results for one in result.held),
        unheld=tuple(one for result in results for one in result.unheld),
        valid_until=min((result.valid_until for result in results), default=inf),
    )


def _plan_group(
    snapshot: Snapshot,
    group: GroupInfo,
    context: ContextFactory,
    policies: Policies,
    ledger: QuotaLedger,
    pending: list[SessionRequest],
    explained: bool,
) -> GroupResult:
    policy = policies.queue.get(group.queue)
    factory = policies.selection.get(group.selection)
    if policy is None or factory is None:
        kind, name = ("queue", group.queue) if policy is None else ("selection", group.selection)
        names = sorted(policies.queue if policy is None else policies.selection)
        text = f"group {group.name} names the {kind} policy {name}, which is not installed"
        reason = Reason("no-policy", f"{text}; known: {', '.join(names)}")
        pending = [one for one in pending if not is_held_place(one)]
        return GroupResult(waits=_waits_for_reason(pending, reason))
    run = GroupRun(snapshot, group, context(group, factory), policy, ledger)
    return run.run(pending, explained=explained)


def _waits_without_group(sessions: list[SessionRequest]) -> list[Wait]:
    return [
        wait
        for session in sessions
        for wait in _waits_for_reason(
            [session], Reason("no-group", f"there is no resource group {session.group or '(none)'}")
        )
    ]


def _waits_for_reason(sessions: list[SessionRequest], reason: Reason) -> list[Wait]:
    return [
        Wait(session.id, session.group, position, (reason,), skips=session.skips)
        for position, session in enumerate(sessions, start=1)
    ]
