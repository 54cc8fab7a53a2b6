"""Decisions and the planner's answer → actions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.model.types import Eviction, Placement
from providers.base import KernelSpec
from reconciler.plan.actions.kernel_specs import kernel_specs, secret_references
from reconciler.plan.context import Case
from reconciler.plan.decide.node_loss import lingering
from reconciler.plan.decide.session_needs import LEAVES, Decision
from reconciler.plan.images import pinned, session_pulls, unpinned
from reconciler.plan.network.kernel_connections import network_notes
from reconciler.plan.place.solve import Solution, entered
from reconciler.plan.warnings import not_enforced
from reconciler.values.field_changes import field_changes, is_resize
from reconciler.values.plan import Action, Notice, Side
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Existing
from schemas.kinds.session import Session


def session_action(case: Case, decision: Decision, solution: Solution) -> Action | None:
    """The action of one session; None where there is nothing, before or after."""
    existing = decision.existing
    if decision.need == "delete" or decision.session is None:
        return _delete(case, decision) if decision.need == "delete" else _nothing(case, decision)
    if decision.need == "finish" and existing is not None:
        why = f"what is left of it is stopped: {existing.reason or 'it has ended'}"
        return _finish(case, decision, existing, why)
    if decision.need == "stop" and existing is not None:
        return _finish(case, decision, _over(decision.session, existing, decision.why), decision.why)
    if decision.need == "away":
        return _nothing(case, decision)
    if decision.need in ("keep", "repair") and decision.placement is not None:
        if decision.id in solution.evictions:
            return _preempted(case, decision, solution.evictions[decision.id])
        if decision.need == "keep":
            return _nothing(case, decision)
        return run_action(case, decision, decision.placement)
    if decision.need == "ended":
        return _ended(case, decision)
    found = _placed(case, decision, solution)
    if found is not None and any(change.path.startswith(LEAVES) for change in found.changes):
        found = replace(found, notice=checkpoint_notice(decision.session))
    return found


def before_side(existing: Existing, *, remade: bool = False) -> Side:
    """What is there: the record, and the kernels that really exist (or are believed to, where nobody looked).

    `remade` leaves out those that were lost, because they will be made again under the same id.
    """
    record = existing.recorded
    seen = {kernel.id for kernel in existing.kernels if not remade or kernel.state == "creating"}
    unseen = {*existing.missing, *existing.away}
    there = tuple(kernel for kernel in record.kernels if kernel not in unseen or kernel in seen)
    return Side(
        generation=record.generation,
        digest=record.digest,
        document=record.document,
        phase=existing.phase,
        placement=record.placement,
        kernels=there + tuple(kernel.id for kernel in existing.strays),
        enqueued_at=record.enqueued_at,
        skips=record.skips,
        reason=existing.reason,
        result=existing.result,
        exit_codes=dict(existing.exit_codes),
        ghosts=record.ghosts,
        account=record.account,
    )


def _delete(case: Case, decision: Decision) -> Action | None:
    if decision.existing is None:
        return None
    ghosts = lingering(decision.existing, case.actual, None)
    before = before_side(decision.existing)
    if ghosts and not before.kernels and decision.existing.recorded.ghosts == ghosts:
        return _nothing(case, decision)  # All is done that can be done from here.
    return Action(
        decision.id,
        case.actual.cluster,
        before,
        None,
        why=decision.why,
        protected=decision.existing.protected,
        ghosts=ghosts,
    )


def _nothing(case: Case, decision: Decision) -> Action | None:
    """A no-op says what is there, without the documents: they are in the store and in git."""
    if decision.existing is None:
        return None
    side = replace(before_side(decision.existing), document={})
    return Action(decision.id, case.actual.cluster, side, side, protected=decision.existing.protected)


def _over(session: Session, existing: Existing, why: str) -> Existing:
    """The session as it is once it has been stopped for good; for a batch session that is no success."""
    result = "failure" if session.spec.type == "batch" else ""
    return replace(existing, phase="TERMINATED", result=result, reason=why)


def _finish(case: Case, decision: Decision, existing: Existing, why: str) -> Action:
    assert decision.session is not None
    before = replace(before_side(existing), phase="RUNNING")
    after = replace(_desired_side(case, decision), phase=existing.phase, kernels=existing.recorded.kernels)
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
        case.actual.cluster,
        before,
        after,
        decision.changes,
        why,
        protected=existing.protected,
        notice=notice,
    )


def _ended(case: Case, decision: Decision) -> Action | None:
    """A finished session stays finished; changes of what only bai reads are written down."""
    if decision.existing is None or not (decision.changes or decision.why):
        return _nothing(case, decision)
    before, protected = before_side(decision.existing), decision.existing.protected
    wanted = _desired_side(case, decision)
    after = replace(
        before,
        digest=wanted.digest,
        document=wanted.document,
        kernels=decision.existing.recorded.kernels,
        ghosts=wanted.ghosts,
    )
    return Action(
        decision.id, case.actual.cluster, before, after, decision.changes, decision.why, protected=protected
    )


def _placed(case: Case, decision: Decision, solution: Solution) -> Action | None:
    if decision.id in solution.kept:
        return _nothing(case, decision)
    placement = solution.placements.get(decision.id)
    if decision.need == "resize":
        if placement is not None and _stays(decision.placement, placement):
            return run_action(case, decision, placement)
        decision = _forced(case, decision)
    if placement is not None:
        return run_action(case, decision, placement)
    if decision.id in solution.cancelled:
        return _cancel(case, decision, solution.cancelled[decision.id])
    return _wait(case, decision, solution)


def _stays(before: Placement | None, after: Placement) -> bool:
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


def _forced(case: Case, decision: Decision) -> Decision:
    """What was to be resized in place does not fit there."""
    can = case.actual.capabilities
    changes = tuple(replace(change, forces=is_resize(change, can)) for change in decision.changes)
    return replace(decision, changes=changes, generation=decision.generation + 1)


def run_action(case: Case, decision: Decision, placement: Placement) -> Action:
    """The action after which a session runs there."""
    session, existing = decision.session, decision.existing
    assert session is not None
    remade = existing is not None and existing.recorded.generation == decision.generation
    before = before_side(existing, remade=remade) if existing else None
    network = case.connected.get(decision.id)
    placement = network.placement if network else placement
    specs = kernel_specs(case.desired, session, placement, decision.generation, dict(case.nodes))
    specs = pinned(case, specs, existing.kernels if existing and remade else ())
    after = replace(
        _desired_side(case, decision),
        phase="RUNNING",
        placement=placement,
        kernels=tuple(spec.id for spec in specs),
        specs=_wanted(decision, specs, placement),
        pulls=session_pulls(case, specs),
    )
    warnings = not_enforced(specs, placement, case.actual.capabilities)
    warnings += unpinned(case, session)
    warnings += network_notes(case.desired, network) if network else ()
    if before is not None and existing is not None and existing.protected and decision.replaces:
        warnings += ("it is protected against deletion, and this replaces what runs",)
    return Action(
        decision.id,
        case.actual.cluster,
        before,
        after,
        decision.changes,
        decision.why or ("spec changed" if decision.changes else "its turn has come"),
        protected=existing.protected if existing else session.protected,
        warnings=warnings,
    )


def _wanted(
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


def _wait(case: Case, decision: Decision, solution: Solution) -> Action:
    """A waiting session is a record: it keeps its time of entry and how often it was passed over."""
    existing, wait = decision.existing, solution.waits.get(decision.id)
    before = before_side(existing) if existing else None
    skips = wait.skips if wait else 0
    after = replace(_desired_side(case, decision), phase="PENDING", skips=skips)
    why = decision.why
    if before is not None and before.phase == "PENDING" and not decision.changes:
        if before.skips == skips and not before.kernels:
            return Action(decision.id, case.actual.cluster, *(replace(before, document={}),) * 2)
        why = decision.why or "passed over by later sessions"
    stops = before is not None and bool(before.kernels) and before.phase not in ENDED
    warnings = ("what runs is stopped, and the new one has to wait",) if stops else ()
    return Action(
        decision.id,
        case.actual.cluster,
        before,
        after,
        decision.changes,
        why,
        protected=existing.protected if existing else False,
        warnings=warnings,
    )


def _preempted(case: Case, decision: Decision, eviction: Eviction) -> Action:
    """A session that makes room is told to save its work, stopped, and queued again under its old turn."""
    assert decision.existing is not None and decision.session is not None
    after = replace(
        _desired_side(case, decision),
        generation=decision.existing.recorded.generation + 1,
        phase="PENDING",
        reason=f"pushed out by {eviction.by}",
    )
    return Action(
        decision.id,
        case.actual.cluster,
        before_side(decision.existing),
        after,
        why=f"pushed out: {eviction.why}",
        notice=_notice(case, decision.session),
    )


def checkpoint_notice(session: Session) -> Notice | None:
    """How a session is told, where it wants to save its work first."""
    checkpoint = session.spec.checkpoint
    return Notice(checkpoint.signal, float(checkpoint.grace)) if checkpoint else None


def _notice(case: Case, session: Session) -> Notice:
    told = checkpoint_notice(session)
    if told is not None:
        return told
    group = case.desired.groups[session.spec.resource_group or ""]
    return Notice("", float(group.spec.preemption.grace))


def _cancel(case: Case, decision: Decision, why: str) -> Action:
    assert decision.existing is not None
    before = before_side(decision.existing)
    after = replace(_desired_side(case, decision), phase="CANCELLED", reason=why)
    return Action(decision.id, case.actual.cluster, before, after, why=why)


def _desired_side(case: Case, decision: Decision) -> Side:
    assert decision.session is not None
    return Side(
        generation=decision.generation,
        digest=case.desired.digests[decision.id],
        document=case.desired.documents[decision.id],
        enqueued_at=entered(case, decision),
        ghosts=lingering(decision.existing, case.actual, decision.generation),
        secrets=secret_references(decision.session),
    )


def other_actions(case: Case) -> list[Action]:
    """Resources other than sessions: what is said about them is written down, or forgotten."""
    wanted: Mapping[str, str] = {} if case.destroy else case.desired.digests
    found = []
    for identity in sorted({*wanted, *case.actual.existing}):
        if identity.startswith("Session/") or not case.touches(identity):
            continue
        existing = case.actual.existing.get(identity)
        if identity.startswith("Kernel/"):
            found += _stray(case, existing)
        elif action := _store_only(case, identity, existing):
            found.append(action)
    return found


def _stray(case: Case, existing: Existing | None) -> list[Action]:
    if existing is None:
        return []
    why = "belongs to no resource"
    return [
        Action(
            existing.id,
            case.actual.cluster,
            before_side(existing),
            None,
            why=why,
            protected=existing.protected,
        )
    ]


def _store_only(case: Case, identity: str, existing: Existing | None) -> Action | None:
    cluster = case.actual.cluster
    before = before_side(existing) if existing else None
    if case.destroy or identity not in case.desired.digests:
        why = "everything is destroyed" if case.destroy else "no longer in the repository"
        protected = existing.protected if existing else False
        return Action(identity, cluster, before, None, why=why, protected=protected) if before else None
    digest, document = case.desired.digests[identity], case.desired.documents[identity]
    if before is None:
        return Action(identity, cluster, None, Side(1, digest, document), why="new")
    if before.digest == digest:
        side = replace(before, document={})
        return Action(identity, cluster, side, side)
    changes = field_changes(before.document, document)
    return Action(
        identity, cluster, before, Side(before.generation + 1, digest, document), changes, "spec changed"
    )
