"""Asking the planner for everybody at once, dependencies between sessions included. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from planner.model.plan_time import PlanTime
from planner.model.timed_memo import TimedMemo
from planner.model.types import HELD, Outcome, Placement, Reason, Running, SessionRequest, Snapshot, Wait
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decision
from reconciler.plan.decide.node_loss import ghosts_at, node_loss_rule, unknown_nodes_reason
from reconciler.plan.images.requirements import common_architectures, image_obstacle
from reconciler.plan.nodes.volume_hosts import volume_obstacle
from reconciler.plan.place import gpu_fractions
from reconciler.plan.place.headroom import PlannedHeadroom, planned_headroom, with_headroom
from reconciler.plan.place.held_placements import held_now, held_while_placing
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.plan.place.snapshot import make_snapshot, running_session
from reconciler.plan.planner_values import session_request
from reconciler.plan.services.disruptions import disruption_budgets, with_spare_replicas
from reconciler.values.changes.change import ChangeKind
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import ENDED, LIVE
from reconciler.values.state import Existing
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session
from schemas.values.resource_ref import identity_of

_PLACING = frozenset({"place", "resize"})
_FREEING = frozenset({"delete", "place", "resize", "finish", "stop"})
_MAY_WAIT = frozenset({ChangeKind.FIELD, ChangeKind.RESTART, ChangeKind.NODE_LOSS})
"""Changes for which what runs may run on until there is room."""
_HELD = Reason(HELD, "held by its document (`hold: true`); `bai release` lets it into its queue")


class _RefusalMemo(TimedMemo[Wait | str | None]):
    """By identity of the session."""


class _RequestMemo(TimedMemo[SessionRequest]):
    """By identity of the session."""


class _RunningMemo(TimedMemo[Running | None]):
    """By identity of the session."""


def solve(context: PlanContext, decisions: Mapping[str, Decision]) -> PlacementResult:
    """Place all pending sessions.

    Nothing that runs is stopped for a change that fits nowhere: such a session keeps its place, and the
    others are placed around it. A session whose dependency starts in the same plan counts on it only as long
    as that one is placed too.
    """
    cancelled, refused, askers = _partition_sessions(context, decisions)
    if not askers and not context.actual.existing:
        return PlacementResult(Outcome((), ()), {}, refused, cancelled)
    kept = {
        identity: _running_on_wait(wait)
        for identity, wait in refused.items()
        if _may_run_on(decisions.get(identity))
    }
    places = planned_headroom(context)
    # Whose start nobody asks for starts nothing that needs it.
    unmet = frozenset(refused.keys() - kept.keys())
    while True:
        snapshot = _make_planner_input(
            context, decisions, [d for d in askers.values() if d.id not in kept], unmet, kept
        )
        snapshot = with_headroom(snapshot, places)
        outcome = _ask_planner(context, snapshot)
        placements = {placement.session: placement for placement in outcome.placements}
        waits = {wait.session: wait for wait in outcome.waits}
        losers = {
            i: _running_on_wait(wait) for i, wait in waits.items() if i in askers and _may_run_on(askers[i])
        }
        more = {identity for identity in askers if identity not in placements} - unmet
        if not losers and not _counts_on(placements, askers, more):
            break
        kept |= losers
        unmet |= more
    waits |= refused | kept | _evicted_waits(outcome)
    full = _count_from_now(context, decisions, outcome, places)
    full = replace(full, unheld=(*full.unheld, *places.refused))
    return PlacementResult(full, placements, waits, cancelled, frozenset(kept), snapshot)


def _make_planner_input(
    context: PlanContext,
    decisions: Mapping[str, Decision],
    askers: list[Decision],
    unmet: frozenset[str],
    kept: Mapping[str, Wait],
) -> Snapshot:
    architectures = frozenset(node.hardware.architecture for node in context.nodes.values())
    asking = {decision.id: decision for decision in askers}

    def request(identity: str, time: PlanTime) -> SessionRequest:
        own = replace(context, time=time)
        return _planner_request(own, asking[identity], decisions, unmet, architectures)

    pending = context.memory.of(_RequestMemo).values(
        asking,
        (asking,),
        context.around,
        context.time,
        request,
        lasts=lambda found: not found.depends_on,  # Others' decisions count for these.
    )
    running = _running_sessions(context, decisions, frozenset(kept))
    if context.services.statuses:
        running = with_spare_replicas(running, context.services.statuses)
    now = context.time.seconds
    asked = make_snapshot(context.desired, context.actual, context.nodes, running, pending.values(), now)
    return replace(asked, disruptions=disruption_budgets(context.services.statuses, context.desired.services))


def _running_sessions(
    context: PlanContext, decisions: Mapping[str, Decision], kept: frozenset[str]
) -> list[Running]:
    """Those that keep what they hold while others are placed, `kept` ones among them."""

    def running(identity: str, time: PlanTime) -> Running | None:
        decision = decisions[identity]
        held = held_while_placing(decision, kept)
        if held is None:
            return None
        movable = not context.destroy and _is_evictable(context, decision)
        return running_session(*held, context.desired, context.nodes, movable=movable)

    around = (context.around, kept)
    found = context.memory.of(_RunningMemo).values(decisions, (decisions,), around, context.time, running)
    return [one for one in found.values() if one is not None]


def _is_evictable(context: PlanContext, decision: Decision) -> bool:
    """Whether this plan may stop it for others: within its scope, as its document says, unprotected."""
    session, existing = decision.session, decision.existing
    if session is None or existing is None or not context.may_change(decision.id):
        return False
    # One whose stop was begun, for the same reason perhaps, would only be started again to be stopped.
    kinds = {change.kind for change in decision.changes}
    begun = decision.need == "repair" and kinds == {ChangeKind.TERMINATION}
    return (decision.need == "keep" or begun) and not existing.protected and not session.protected


def _evicted_waits(outcome: Outcome) -> dict[str, Wait]:
    """Those who are pushed out wait again, behind everybody who waits already."""
    last: dict[str, int] = {}
    for wait in outcome.waits:
        last[wait.group] = max(last.get(wait.group, 0), wait.position)
    found = {}
    for one in outcome.evictions:
        last[one.group] = last.get(one.group, 0) + 1
        reason = Reason("preempted", f"pushed out: {one.why}")
        found[one.session] = Wait(one.session, one.group, last[one.group], (reason,))
    return found


def _may_run_on(decision: Decision | None) -> bool:
    """Whether a session runs, may stay where it is, and would only be stopped for what its document says
    now."""
    if decision is None or decision.existing is None or decision.existing.recorded.placement is None:
        return False
    if decision.existing.missing:
        return False  # half a session is of no use, and nothing would make it whole
    must = any(change.forces and change.kind not in _MAY_WAIT for change in decision.changes)
    existing = decision.existing
    unseen = not existing.kernels and not existing.missing
    alive = unseen or bool(existing.away) or any(kernel.state in LIVE for kernel in existing.kernels)
    return (
        decision.need in ("place", "resize") and alive and not must and decision.existing.phase not in ENDED
    )


def _running_on_wait(wait: Wait) -> Wait:
    note = Reason("runs-on", "runs on as it was, until there is room for what its document says now")
    return replace(wait, reasons=(*wait.reasons, note))


def _counts_on(
    placements: Mapping[str, Placement], askers: Mapping[str, Decision], waiting: set[str]
) -> bool:
    """Whether somebody was placed who counts on a session that was not."""
    placed = (askers[identity].session for identity in placements if identity in askers)
    return any(set(session.spec.depends_on) & waiting for session in placed if session is not None)


def _partition_sessions(
    context: PlanContext, decisions: Mapping[str, Decision]
) -> tuple[dict[str, str], dict[str, Wait], dict[str, Decision]]:
    """Sessions that waited too long, sessions that cannot be asked for, and those that the planner is asked
    about."""
    cancelled: dict[str, str] = {}
    refused: dict[str, Wait] = {}
    askers: dict[str, Decision] = {}
    unknown = unknown_nodes_reason(context.actual, context.desired)
    placing = {i: each for i, each in decisions.items() if each.need in _PLACING and each.session is not None}
    answers = context.memory.of(_RefusalMemo).values(
        placing, (placing,), context.around, context.time, partial(_refusal, context, placing, unknown)
    )
    for identity, answer in answers.items():
        if answer is None:
            askers[identity] = placing[identity]
        elif isinstance(answer, Wait):
            refused[identity] = answer
        else:
            cancelled[identity] = answer
    blind = (
        ""
        if context.actual.complete
        else "what runs could not be observed completely: " + _observation_errors(context)
    )
    blind = blind or unknown
    if blind and not context.destroy:
        for identity, session in context.desired.sessions().items():
            if identity not in decisions and (context.scope is None or identity in context.scope):
                group = session.spec.resource_group or ""
                reason = Reason("not-observed", blind)
                refused[identity] = Wait(identity, group, 0, (reason,))
    return cancelled, refused, askers


def _refusal(
    context: PlanContext, placing: Mapping[str, Decision], unknown: str, identity: str, time: PlanTime
) -> Wait | str | None:
    """Why a session waits that the planner is not asked about; a text for one that has waited too long."""
    decision = placing[identity]
    session = decision.session
    assert session is not None
    group = session.spec.resource_group or ""
    if session.spec.hold:
        return Wait(identity, group, 0, (_HELD,))
    late = _pending_timeout(context, decision, time)
    why = gpu_fractions.fraction_obstacle(session, context.desired, context.actual.capabilities)
    unsure = unknown or _ghost_obstacle(context, decision)
    if late:
        return late
    if why or unsure:
        reason = Reason("fraction-not-enforced", why) if why else Reason("not-observed", unsure)
        return Wait(identity, group, 0, (reason,))
    unfit = _document_obstacle(session, context)
    return Wait(identity, group, 0, (unfit,)) if unfit else None


def _document_obstacle(session: Session, context: PlanContext) -> Reason | None:
    """Why no node can be asked to take a session: its images, or its volumes."""
    return image_obstacle(session, context.desired, context.actual) or volume_obstacle(session, context)


def _ghost_obstacle(context: PlanContext, decision: Decision) -> str:
    """Why a session that may not run twice is not placed: an older one of it may run where nobody sees it."""
    session, ghosts = decision.session, ghosts_at(decision.existing, context.actual, decision.generation)
    if session is None or not ghosts or decision.id in context.replace_requests:
        return ""
    if node_loss_rule(session, context.desired).then == "reschedule":
        return ""
    nodes = ", ".join(sorted({ghost.node for ghost in ghosts}))
    return f"an earlier one may still run on {nodes}, which is not reached (`nodeLoss: {{then: wait}}`)"


def _observation_errors(context: PlanContext) -> str:
    return "; ".join(context.actual.errors) or "the provider could not say why"


def _pending_timeout(context: PlanContext, decision: Decision, time: PlanTime) -> str:
    existing, session = decision.existing, decision.session
    if existing is None or session is None or existing.recorded.phase != "PENDING" or decision.changes:
        return ""
    group = context.desired.resources.get(identity_of("ResourceGroup", session.spec.resource_group or ""))
    limit = group.spec.queue_options.pending_timeout if isinstance(group, ResourceGroup) else None
    since = existing.recorded.enqueued_at
    if limit is None or since is None or not time.after(since + limit):
        return ""
    return f"waited longer than {limit} s, the group's pendingTimeout"


def _planner_request(
    context: PlanContext,
    decision: Decision,
    decisions: Mapping[str, Decision],
    unmet: frozenset[str],
    architectures: frozenset[str],
) -> SessionRequest:
    """`architectures`: those of the nodes."""
    assert decision.session is not None
    record = decision.existing.recorded if decision.existing else None
    waiting = record is not None and record.phase == "PENDING"
    asked = session_request(
        decision.session,
        context.desired.repository,
        enqueued=queue_entry_time(context, decision),
        skips=record.skips if record is not None and waiting else 0,
        blocked_by=_unmet_dependencies(context, decision, decisions, unmet),
        architectures=common_architectures(decision.session, context.desired, context.actual, architectures),
    )
    if asked.preemptible and decision.session.protected:
        asked = replace(asked, preemptible=False)  # It would not give way.
    if asked.replica_of is not None and decision.existing is not None and decision.existing.phase in HOLDING:
        asked = replace(asked, replica_of=replace(asked.replica_of, restarts=True))
    able = gpu_fractions.enforcing_nodes(decision.session, context.desired, context.actual.capabilities)
    if able is not None:
        asked = replace(asked, designated=able & asked.designated or able)
    if decision.need == "resize" and decision.placement is not None:
        nodes = frozenset(part.node for part in decision.placement.kernels)
        return replace(asked, designated=nodes, blocked_by=())
    return asked


def queue_entry_time(context: PlanContext, decision: Decision) -> float:
    """When a session joined its queue: what waits or runs keeps its turn, whatever becomes of its
    document. Who was held joins it when that is over, and has no time in it before."""
    existing = decision.existing
    if existing is not None and existing.phase == "PENDING" and _is_released(decision, existing):
        return context.time.exactly()
    if existing is None or existing.phase in ENDED or existing.recorded.enqueued_at is None:
        return context.time.exactly()
    return existing.recorded.enqueued_at


def _is_released(decision: Decision, existing: Existing) -> bool:
    """Whether it was held as it was last recorded, and is not any more."""
    spec = existing.recorded.document.get("spec")
    held = isinstance(spec, Mapping) and spec.get("hold") is True
    return held and decision.session is not None and not decision.session.spec.hold


def _unmet_dependencies(
    context: PlanContext, decision: Decision, decisions: Mapping[str, Decision], unmet: frozenset[str]
) -> tuple[str, ...]:
    assert decision.session is not None
    states = (
        (dep, _dependency_state(dep, decisions.get(dep), context, unmet))
        for dep in decision.session.spec.depends_on
    )
    return tuple(f"{dep} ({state})" for dep, state in states if state)


def _dependency_state(
    identity: str, decision: Decision | None, context: PlanContext, unmet: frozenset[str]
) -> str:
    """Why a dependency does not hold yet: batch must have succeeded, anything else must run; empty when it
    does."""
    existing = context.actual.existing.get(identity)
    session = context.desired.sessions().get(identity)
    batch = session is not None and session.spec.type == "batch"
    if decision is None or existing is None:
        starts = decision is not None and not batch and identity not in unmet
        return "" if starts else "not started"
    if decision.need == "away":
        return "not reached"
    if decision.need == "stop":
        return "being stopped"
    if decision.need in ("ended", "finish"):
        return "" if existing.result == "success" else existing.result or existing.phase
    if batch or existing.phase == "PENDING" or decision.need == "delete":
        tentative = not batch and decision.need == "place" and identity not in unmet
        again = existing.phase in ENDED and decision.need == "place"
        return "" if tentative else "starts again" if again else existing.phase
    if decision.need == "place":
        return "" if identity not in unmet else "being replaced"
    return ""


def _count_from_now(
    context: PlanContext, decisions: Mapping[str, Decision], outcome: Outcome, places: PlannedHeadroom
) -> Outcome:
    """What was used before counts what this plan frees, too."""
    freed = any(d.need in _FREEING and d.existing and d.existing.phase in HOLDING for d in decisions.values())
    if not freed:
        return outcome
    held, now = held_now(context.actual), context.time.seconds
    running = [running_session(*one, context.desired, context.nodes) for one in held]
    before = make_snapshot(context.desired, context.actual, context.nodes, running, (), now)
    before = replace(before, held=places.held)
    return outcome.counted_from(_ask_planner(context, before))


def _ask_planner(context: PlanContext, snapshot: Snapshot) -> Outcome:
    outcome = context.place(snapshot)
    context.time.expires(outcome.valid_until)
    return outcome
