"""What time does to a session that nobody changed: its node is lost, its time is over, nobody uses it.
Pure."""

from __future__ import annotations

from dataclasses import replace

from reconciler.plan.decide.decision import Decision
from reconciler.plan.decide.idleness import idle_reason
from reconciler.plan.decide.node_loss import (
    is_out_of_reach,
    node_loss_changes,
    node_loss_reason,
    nodes_given_up,
)
from reconciler.values.state import Actual, Desired, Existing
from reconciler.values.times import format_duration
from schemas.kinds.session import Session


def apply_lifecycle(decision: Decision, desired: Desired, actual: Actual, now: float) -> Decision:
    """The decision, with what follows from the state of the session's nodes and from the time."""
    existing, session = decision.existing, decision.session
    if existing is None or session is None or decision.need in ("delete", "ended", "finish"):
        return decision
    if is_out_of_reach(existing):
        return _decide_out_of_reach(decision, session, existing, desired, actual, now)
    if (
        decision.need in ("keep", "repair", "resize")
        and existing.phase == "RUNNING"
        and not decision.replaces
    ):
        why = timeout_reason(session, existing, actual, now) or idle_reason(
            session, existing, actual, desired, now
        )
        if why:
            return replace(decision, need="stop", why=why, placement=None)
    return decision


def _decide_out_of_reach(
    decision: Decision, session: Session, existing: Existing, desired: Desired, actual: Actual, now: float
) -> Decision:
    """A session on a lost node waits for it, or is started again elsewhere."""
    record = existing.recorded
    nodes = nodes_given_up(session, existing, actual, desired, now)
    if nodes:
        why = node_loss_reason(nodes, actual, now)
        changes = (
            *(change for change in decision.changes if change.path.startswith(("spec", "metadata"))),
            *node_loss_changes(nodes),
        )
        return replace(
            decision, need="place", changes=changes, why=why, placement=None, generation=record.generation + 1
        )
    why = node_loss_reason(sorted(set(existing.away.values())), actual, now)
    return replace(
        decision, need="away", changes=(), why=why, placement=record.placement, generation=record.generation
    )


def timeout_reason(session: Session, existing: Existing, actual: Actual, now: float) -> str:
    """Why a session has run long enough, where its provider does not end it by itself; empty otherwise."""
    can, timeout = actual.capabilities, session.spec.timeout
    if timeout is None or can is None or can.timeouts:
        return ""
    began = _started_at(existing)
    if began is None or now - began < timeout:
        return ""
    return f"timeout: ran for {format_duration(now - began)} of {format_duration(timeout)}"


def _started_at(existing: Existing) -> float | None:
    """When its main container was made: whoever restarts that does not make it anew."""
    main = existing.recorded.kernels[0]
    kernel = next((each for each in existing.kernels if each.id == main), None)
    made = (kernel.created or kernel.started) if kernel else None
    return made.timestamp() if made is not None else None
