"""Asking the planner for everybody at once, dependencies between sessions included. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from planner.model.types import Eviction, Outcome, Placement, Reason, SessionRequest, Snapshot, Wait
from reconciler.plan.context import Case, holding, holding_now
from reconciler.plan.decide.node_loss import CONTACT, lingering, rule, stranger_reason
from reconciler.plan.decide.replace_requests import GENERATION
from reconciler.plan.decide.session_needs import Decision
from reconciler.plan.images import image_refused, machines
from reconciler.plan.nodes.volume_hosts import unmade
from reconciler.plan.place import gpu_fractions
from reconciler.plan.place.snapshot import make_snapshot
from reconciler.plan.requests import request
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import ENDED, LIVE
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session

_FREEING = frozenset({"delete", "place", "resize", "finish", "stop"})


@dataclass(frozen=True)
class Solution:
    """Who sits where, who waits and why, who waited too long (`cancelled`: identity → why)."""

    outcome: Outcome
    placements: Mapping[str, Placement]
    waits: Mapping[str, Wait]
    cancelled: Mapping[str, str]
    kept: frozenset[str] = frozenset()
    """Sessions that run on as they were, because what they are to become fits nowhere yet."""
    asked: Snapshot | None = None
    """What the planner was asked in the end; None where there was nothing to ask."""

    @cached_property
    def evictions(self) -> Mapping[str, Eviction]:
        """Running sessions that make room for others, by identity."""
        return {one.session: one for one in self.outcome.evictions}


def solve(case: Case, found: Mapping[str, Decision]) -> Solution:
    """Place all pending sessions.

    Nothing that runs is stopped for a change that fits nowhere: such a session keeps its place, and the
    others are placed around it. A session whose dependency starts in the same plan counts on it only as long
    as that one is placed too.
    """
    cancelled, refused, askers = _sort_out(case, found)
    if not askers and not case.actual.existing:
        return Solution(Outcome((), ()), {}, refused, cancelled)
    kept = {identity: wait for identity, wait in refused.items() if _runs_on(found.get(identity))}
    unmet: frozenset[str] = frozenset()
    while True:
        asked = _asked(case, found, [d for d in askers.values() if d.id not in kept], unmet, kept)
        outcome = case.place(asked)
        placements = {placement.session: placement for placement in outcome.placements}
        waits = {wait.session: wait for wait in outcome.waits}
        losers = {i: _running_on(wait) for i, wait in waits.items() if i in askers and _runs_on(askers[i])}
        more = {identity for identity in askers if identity not in placements} - unmet
        if not losers and not _depended(placements, askers, more):
            break
        kept |= losers
        unmet |= more
    waits |= refused | kept | _evicted(outcome)
    full = _with_before(case, found, outcome)
    return Solution(full, placements, waits, cancelled, frozenset(kept), asked)


def _asked(
    case: Case,
    found: Mapping[str, Decision],
    askers: list[Decision],
    unmet: frozenset[str],
    kept: Mapping[str, Wait],
) -> Snapshot:
    pending = [_request(case, decision, found, unmet) for decision in askers]
    running = holding(found, kept)
    movable = frozenset() if case.destroy else frozenset(_movable(case, found))
    return make_snapshot(case.desired, case.actual, case.nodes, running, pending, case.now, movable)


def _movable(case: Case, found: Mapping[str, Decision]) -> Iterator[str]:
    """Sessions that this plan may stop for others: within its scope, as their documents say, unprotected."""
    for identity, decision in found.items():
        session, existing = decision.session, decision.existing
        if session is None or existing is None or not case.touches(identity):
            continue
        # One whose stop was begun, for the same reason perhaps, would only be started again to be stopped.
        begun = decision.need == "repair" and {change.path for change in decision.changes} == {"phase"}
        if decision.need != "keep" and not begun:
            continue
        if not existing.protected and not session.protected:
            yield identity


def _evicted(outcome: Outcome) -> dict[str, Wait]:
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


def _runs_on(decision: Decision | None) -> bool:
    """Whether a session runs, may stay where it is, and would only be stopped for what its document says
    now."""
    if decision is None or decision.existing is None or decision.existing.recorded.placement is None:
        return False
    if decision.existing.missing:
        return False  # half a session is of no use, and nothing would make it whole
    must = any(
        change.forces and not change.path.startswith(("spec", "metadata", GENERATION, CONTACT))
        for change in decision.changes
    )
    existing = decision.existing
    unseen = not existing.kernels and not existing.missing
    alive = unseen or bool(existing.away) or any(kernel.state in LIVE for kernel in existing.kernels)
    return (
        decision.need in ("place", "resize") and alive and not must and decision.existing.phase not in ENDED
    )


def _running_on(wait: Wait) -> Wait:
    note = Reason("runs-on", "runs on as it was, until there is room for what its document says now")
    return replace(wait, reasons=(*wait.reasons, note))


def _depended(placements: Mapping[str, Placement], askers: Mapping[str, Decision], waiting: set[str]) -> bool:
    """Whether somebody was placed who counts on a session that was not."""
    placed = (askers[identity].session for identity in placements if identity in askers)
    return any(set(session.spec.depends_on) & waiting for session in placed if session is not None)


def _sort_out(
    case: Case, found: Mapping[str, Decision]
) -> tuple[dict[str, str], dict[str, Wait], dict[str, Decision]]:
    """Sessions that waited too long, sessions that cannot be asked for, and those that the planner is asked
    about."""
    cancelled: dict[str, str] = {}
    refused: dict[str, Wait] = {}
    askers: dict[str, Decision] = {}
    unknown = stranger_reason(case.actual, case.desired)
    for identity, decision in found.items():
        if decision.need not in ("place", "resize") or decision.session is None:
            continue
        late = _too_late(case, decision)
        why = gpu_fractions.refused(decision.session, case.desired, case.actual.capabilities)
        unsure = unknown or _haunted(case, decision)
        if late:
            cancelled[identity] = late
        elif why or unsure:
            group = decision.session.spec.resource_group or ""
            reason = Reason("fraction-not-enforced", why) if why else Reason("not-observed", unsure)
            refused[identity] = Wait(identity, group, 0, (reason,))
        elif unfit := _unfit(decision.session, case):
            refused[identity] = Wait(identity, decision.session.spec.resource_group or "", 0, (unfit,))
        else:
            askers[identity] = decision
    blind = "" if case.actual.complete else "what runs could not be observed completely: " + _errors(case)
    blind = blind or unknown
    if blind and not case.destroy:
        for identity, session in case.desired.sessions().items():
            if identity not in found and (case.scope is None or identity in case.scope):
                group = session.spec.resource_group or ""
                reason = Reason("not-observed", blind)
                refused[identity] = Wait(identity, group, 0, (reason,))
    return cancelled, refused, askers


def _unfit(session: Session, case: Case) -> Reason | None:
    """Why no node can be asked to take a session: its images, or its volumes."""
    return image_refused(session, case.desired, case.actual) or unmade(session, case)


def _haunted(case: Case, decision: Decision) -> str:
    """Why a session that may not run twice is not placed: an older one of it may run where nobody sees it."""
    session, ghosts = decision.session, lingering(decision.existing, case.actual, decision.generation)
    if session is None or not ghosts or decision.id in case.anew:
        return ""
    if rule(session, case.desired).then == "reschedule":
        return ""
    nodes = ", ".join(sorted({ghost.node for ghost in ghosts}))
    return f"an earlier one may still run on {nodes}, which is not reached (`nodeLoss: {{then: wait}}`)"


def _errors(case: Case) -> str:
    return "; ".join(case.actual.errors) or "the provider could not say why"


def _too_late(case: Case, decision: Decision) -> str:
    existing, session = decision.existing, decision.session
    if existing is None or session is None or existing.recorded.phase != "PENDING" or decision.changes:
        return ""
    group = case.desired.resources.get(f"ResourceGroup/{session.spec.resource_group}")
    limit = group.spec.queue_options.pending_timeout if isinstance(group, ResourceGroup) else None
    since = existing.recorded.enqueued_at
    if limit is None or since is None or case.now - since <= limit:
        return ""
    return f"waited longer than {limit} s, the group's pendingTimeout"


def _request(
    case: Case, decision: Decision, found: Mapping[str, Decision], unmet: frozenset[str]
) -> SessionRequest:
    assert decision.session is not None
    record = decision.existing.recorded if decision.existing else None
    waiting = record is not None and record.phase == "PENDING"
    asked = request(
        decision.session,
        case.desired.repository,
        enqueued=entered(case, decision),
        skips=record.skips if record is not None and waiting else 0,
        blocked_by=_blocked(case, decision, found, unmet),
    )
    runs_on = machines(decision.session, case.desired, case.actual, case.nodes)
    asked = replace(asked, architectures=runs_on)
    able = gpu_fractions.nodes(decision.session, case.desired, case.actual.capabilities)
    if able is not None:
        asked = replace(asked, designated=able & asked.designated or able)
    if decision.need == "resize" and decision.placement is not None:
        nodes = frozenset(part.node for part in decision.placement.kernels)
        return replace(asked, designated=nodes, blocked_by=())
    return asked


def entered(case: Case, decision: Decision) -> float:
    """When a session joined its queue: what waits or runs keeps its turn, whatever becomes of its
    document."""
    existing = decision.existing
    if existing is None or existing.phase in ENDED or existing.recorded.enqueued_at is None:
        return case.now
    return existing.recorded.enqueued_at


def _blocked(
    case: Case, decision: Decision, found: Mapping[str, Decision], unmet: frozenset[str]
) -> tuple[str, ...]:
    assert decision.session is not None
    states = ((dep, _unmet(dep, found.get(dep), case, unmet)) for dep in decision.session.spec.depends_on)
    return tuple(f"{dep} ({state})" for dep, state in states if state)


def _unmet(identity: str, decision: Decision | None, case: Case, unmet: frozenset[str]) -> str:
    """Why a dependency does not hold yet: batch must have succeeded, anything else must run; empty when it
    does."""
    existing = case.actual.existing.get(identity)
    session = case.desired.sessions().get(identity)
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


def _with_before(case: Case, found: Mapping[str, Decision], outcome: Outcome) -> Outcome:
    """What was used before counts what this plan frees, too."""
    freed = any(d.need in _FREEING and d.existing and d.existing.phase in HOLDING for d in found.values())
    if not freed:
        return outcome
    now = case.place(
        make_snapshot(case.desired, case.actual, case.nodes, holding_now(case.actual), (), case.now)
    )
    return outcome.counted_from(now)
