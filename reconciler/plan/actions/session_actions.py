"""Decisions and the planner's answer → actions. Pure."""

from __future__ import annotations

from dataclasses import replace

from planner.model.types import Eviction, Placement
from providers.base import KernelSpec
from reconciler.plan.actions.kernel_specs import kernel_specs, secret_references
from reconciler.plan.actions.sides import session_side
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decision
from reconciler.plan.decide.node_loss import ghosts_at
from reconciler.plan.images.pinning import pin_images, unpinned_notes
from reconciler.plan.images.pulls import session_pulls
from reconciler.plan.network.kernel_connections import network_notes
from reconciler.plan.network.session_networks import ConnectedPlacement
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.plan.place.solve import queue_entry_time
from reconciler.plan.unenforced_limits import unenforced_limits
from reconciler.values.changes.cause import SPEC_CHANGED, Cause, CauseCode
from reconciler.values.changes.change import ChangeKind
from reconciler.values.documents.field_changes import is_resize
from reconciler.values.plan import Action, Notice
from reconciler.values.session_phase import ENDED
from reconciler.values.sides import SessionSide
from reconciler.values.state import Existing
from schemas.kinds.session import Session
from schemas.values.once_per_value import once_per_value

_ITS_TURN = Cause(CauseCode.SCHEDULED, "its turn has come")


def session_action(context: PlanContext, decision: Decision, placed: PlacementResult) -> Action | None:
    """The action of one session; None where there is nothing, before or after."""
    existing = decision.existing
    if decision.need == "delete" or decision.session is None:
        return _delete_session(context, decision) if decision.need == "delete" else _no_op(decision)
    if decision.need == "finish" and existing is not None:
        text = f"what is left of it is stopped: {existing.reason or 'it has ended'}"
        return _stop_rest(context, decision, existing, Cause(CauseCode.ENDED, text))
    if decision.need == "stop" and existing is not None and decision.cause is not None:
        stopped = _as_stopped(decision.session, existing, decision.cause.text)
        return _stop_rest(context, decision, stopped, decision.cause)
    if decision.need == "away":
        return _no_op(decision)
    if decision.need in ("keep", "repair") and decision.placement is not None:
        if decision.id in placed.evictions:
            return _preempt(context, decision, placed.evictions[decision.id])
        if decision.need == "keep":
            return _no_op(decision)
        return run_action(context, decision, placed.connection(decision.id, decision.placement))
    if decision.need == "ended":
        return _record_ended(context, decision)
    found = _place_or_wait(context, decision, placed)
    if found is not None and any(change.kind is ChangeKind.LEAVE_NODE for change in found.changes):
        found = replace(found, notice=checkpoint_notice(decision.session))
    return found


def _delete_session(context: PlanContext, decision: Decision) -> Action | None:
    if decision.existing is None:
        return None
    ghosts = ghosts_at(decision.existing, context.actual, None)
    before = session_side(decision.existing)
    if ghosts and not before.kernels and decision.existing.recorded.ghosts == ghosts:
        return _no_op(decision)  # All is done that can be done from here.
    return Action(
        decision.id,
        context.actual.cluster,
        before,
        None,
        cause=decision.cause,
        protected=decision.existing.protected,
        ghosts=ghosts,
    )


def _no_op(decision: Decision) -> Action | None:
    """A no-op says what is there, without the documents: they are in the store and in git."""
    return _unchanged(decision.existing) if decision.existing is not None else None


@once_per_value
def _unchanged(existing: Existing) -> Action:
    side = replace(session_side(existing), document={})
    return Action(existing.id, existing.recorded.cluster, side, side, protected=existing.protected)


def _as_stopped(session: Session, existing: Existing, why: str) -> Existing:
    """The session as it is once it has been stopped for good; for a batch session that is no success."""
    result = "failure" if session.spec.type == "batch" else ""
    return replace(existing, phase="TERMINATED", result=result, reason=why)


def _stop_rest(context: PlanContext, decision: Decision, existing: Existing, cause: Cause) -> Action:
    assert decision.session is not None
    before = replace(session_side(existing), phase="RUNNING")
    after = replace(_desired_side(context, decision), phase=existing.phase, kernels=existing.recorded.kernels)
    after = replace(
        after,
        placement=existing.recorded.placement,
        reason=existing.reason,
        result=existing.result,
        exit_codes=dict(existing.exit_codes),
        account=existing.recorded.account,
    )
    notice = checkpoint_notice(decision.session) if decision.need == "stop" else None
    return Action(
        decision.id,
        context.actual.cluster,
        before,
        after,
        decision.changes,
        cause,
        protected=existing.protected,
        notice=notice,
    )


def _record_ended(context: PlanContext, decision: Decision) -> Action | None:
    """A finished session stays finished; changes of what only bai reads are written down."""
    if decision.existing is None or not (decision.changes or decision.cause):
        return _no_op(decision)
    before, protected = session_side(decision.existing), decision.existing.protected
    wanted = _desired_side(context, decision)
    after = replace(
        before,
        digest=wanted.digest,
        document=wanted.document,
        kernels=decision.existing.recorded.kernels,
        ghosts=wanted.ghosts,
    )
    return Action(
        decision.id,
        context.actual.cluster,
        before,
        after,
        decision.changes,
        decision.cause,
        protected=protected,
    )


def _place_or_wait(context: PlanContext, decision: Decision, placed: PlacementResult) -> Action | None:
    if decision.id in placed.kept:
        return _no_op(decision)
    placement = placed.placements.get(decision.id)
    if decision.need == "resize":
        if placement is not None and _fits_in_place(decision.placement, placement):
            return run_action(context, decision, placed.connection(decision.id, placement))
        decision = _force_replacement(context, decision)
    if placement is not None:
        return run_action(context, decision, placed.connection(decision.id, placement))
    if decision.id in placed.cancelled:
        return _cancel_session(context, decision, placed.cancelled[decision.id])
    return _queue_session(context, decision, placed)


def _fits_in_place(before: Placement | None, after: Placement) -> bool:
    """Whether the containers can change where they are. They change at the same time: none may get a core
    that another of them gives up."""
    if not _same_devices(before, after):
        return False
    held = {(part.node, cpu): part.kernel for part in before.kernels for cpu in part.cpus} if before else {}
    return all(
        held.get((part.node, cpu), part.kernel) == part.kernel for part in after.kernels for cpu in part.cpus
    )


def _same_devices(before: Placement | None, after: Placement) -> bool:
    old = {part.kernel: (part.node, part.devices) for part in before.kernels} if before else {}
    return old == {part.kernel: (part.node, part.devices) for part in after.kernels}


def _force_replacement(context: PlanContext, decision: Decision) -> Decision:
    """What was to be resized in place does not fit there."""
    can = context.actual.capabilities
    changes = tuple(replace(change, forces=is_resize(change, can)) for change in decision.changes)
    return replace(decision, changes=changes, generation=decision.generation + 1)


def run_action(context: PlanContext, decision: Decision, connected: ConnectedPlacement) -> Action:
    """The action after which a session runs there, connected so."""
    session, existing = decision.session, decision.existing
    assert session is not None
    remade = existing is not None and existing.recorded.generation == decision.generation
    before = session_side(existing, remade=remade) if existing else None
    placement = connected.placement
    specs = kernel_specs(context.desired, session, placement, decision.generation, dict(context.nodes))
    specs = pin_images(context, specs, existing.kernels if existing and remade else ())
    after = replace(
        _desired_side(context, decision),
        phase="RUNNING",
        placement=placement,
        kernels=tuple(spec.id for spec in specs),
        specs=_specs_to_create(decision, specs, placement),
        pulls=session_pulls(context, specs),
    )
    warnings = unenforced_limits(specs, placement, context.actual.capabilities)
    warnings += unpinned_notes(context, session)
    warnings += network_notes(context.desired, connected)
    if before is not None and existing is not None and existing.protected and decision.replaces:
        warnings += ("it is protected against deletion, and this replaces what runs",)
    return Action(
        decision.id,
        context.actual.cluster,
        before,
        after,
        decision.changes,
        decision.cause or (SPEC_CHANGED if decision.changes else _ITS_TURN),
        protected=existing.protected if existing else session.protected,
        warnings=warnings,
    )


def _specs_to_create(
    decision: Decision, specs: tuple[KernelSpec, ...], placement: Placement
) -> tuple[KernelSpec, ...]:
    """The kernels that the provider is asked about: all, or only those that are to be made again."""
    existing = decision.existing
    if existing is None or decision.changes or existing.recorded.placement != placement:
        return specs
    if existing.missing:
        return tuple(spec for spec in specs if spec.id in existing.missing)
    if existing.adopted or existing.strays:
        return ()
    return specs


def _queue_session(context: PlanContext, decision: Decision, placed: PlacementResult) -> Action:
    """A waiting session is a record: it keeps its time of entry and how often it was passed over."""
    existing, wait = decision.existing, placed.waits.get(decision.id)
    skips = wait.skips if wait else 0
    waited = existing is not None and existing.phase == "PENDING" and not decision.changes
    if existing is not None and waited and existing.recorded.skips == skips:
        same = _unchanged(existing)
        if same.session_before is not None and not same.session_before.kernels:
            return same
    before = session_side(existing) if existing else None
    after = replace(_desired_side(context, decision), phase="PENDING", skips=skips)
    cause = decision.cause
    if waited:
        cause = cause or Cause(CauseCode.SKIPPED, "passed over by later sessions")
    stops = before is not None and bool(before.kernels) and before.phase not in ENDED
    warnings = ("what runs is stopped, and the new one has to wait",) if stops else ()
    return Action(
        decision.id,
        context.actual.cluster,
        before,
        after,
        decision.changes,
        cause,
        protected=existing.protected if existing else False,
        warnings=warnings,
    )


def _preempt(context: PlanContext, decision: Decision, eviction: Eviction) -> Action:
    """A session that makes room is told to save its work, stopped, and queued again under its old turn."""
    assert decision.existing is not None and decision.session is not None
    after = replace(
        _desired_side(context, decision),
        generation=decision.existing.recorded.generation + 1,
        phase="PENDING",
        reason=f"pushed out by {eviction.by}",
    )
    return Action(
        decision.id,
        context.actual.cluster,
        session_side(decision.existing),
        after,
        cause=Cause(CauseCode.PREEMPTED, f"pushed out: {eviction.why}"),
        notice=_preemption_notice(context, decision.session),
    )


def checkpoint_notice(session: Session) -> Notice | None:
    """How a session is told, where it wants to save its work first."""
    checkpoint = session.spec.checkpoint
    return Notice(checkpoint.signal, float(checkpoint.grace)) if checkpoint else None


def _preemption_notice(context: PlanContext, session: Session) -> Notice:
    checkpoint = checkpoint_notice(session)
    if checkpoint is not None:
        return checkpoint
    group = context.desired.groups[session.spec.resource_group or ""]
    return Notice("", float(group.spec.preemption.grace))


def _cancel_session(context: PlanContext, decision: Decision, why: str) -> Action:
    assert decision.existing is not None
    before = session_side(decision.existing)
    after = replace(_desired_side(context, decision), phase="CANCELLED", reason=why)
    return Action(
        decision.id, context.actual.cluster, before, after, cause=Cause(CauseCode.PENDING_TIMEOUT, why)
    )


def _desired_side(context: PlanContext, decision: Decision) -> SessionSide:
    assert decision.session is not None
    return SessionSide(
        generation=decision.generation,
        digest=context.desired.digests[decision.id],
        document=context.desired.documents[decision.id],
        enqueued_at=queue_entry_time(context, decision),
        ghosts=ghosts_at(decision.existing, context.actual, decision.generation),
        secrets=secret_references(decision.session),
    )
