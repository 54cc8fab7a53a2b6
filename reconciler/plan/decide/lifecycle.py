"""What time does to a session that nobody changed: its node is lost, its time is over, nobody uses it.
Pure."""

from __future__ import annotations

from dataclasses import replace

from planner.model.plan_time import PlanTime
from reconciler.plan.decide.decision import Decision
from reconciler.plan.decide.idleness import idle_cause
from reconciler.plan.decide.node_loss import (
    is_out_of_reach,
    node_loss_cause,
    nodes_given_up,
)
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.changes.change import ChangeKind, node_loss
from reconciler.values.state import Actual, Desired, Existing
from reconciler.values.times import format_duration
from schemas.kinds.session import Session


def apply_lifecycle(decision: Decision, desired: Desired, actual: Actual, time: PlanTime) -> Decision:
    """The decision, with what follows from the state of the session's nodes and from the time."""
    existing, session = decision.existing, decision.session
    if existing is None or session is None or decision.need in ("delete", "ended", "finish"):
        return decision
    if is_out_of_reach(existing):
        return _decide_out_of_reach(decision, session, existing, desired, actual, time)
    if (
        decision.need in ("keep", "repair", "resize")
        and existing.phase == "RUNNING"
        and not decision.replaces
    ):
        cause = timeout_cause(session, existing, actual, time) or idle_cause(
            session, existing, actual, desired, time
        )
        if cause:
            return replace(decision, need="stop", cause=cause, placement=None)
    return decision


def _decide_out_of_reach(
    decision: Decision, session: Session, existing: Existing, desired: Desired, actual: Actual, time: PlanTime
) -> Decision:
    """A session on a lost node waits for it, or is started again elsewhere."""
    record = existing.recorded
    nodes = nodes_given_up(session, existing, actual, desired, time)
    if nodes:
        return replace(
            decision,
            need="place",
            changes=(
                *(change for change in decision.changes if change.kind is ChangeKind.FIELD),
                *map(node_loss, nodes),
            ),
            cause=node_loss_cause(nodes, actual, time),
            placement=None,
            generation=record.generation + 1,
        )
    return replace(
        decision,
        need="away",
        changes=(),
        cause=node_loss_cause(sorted(set(existing.away.values())), actual, time),
        placement=record.placement,
        generation=record.generation,
    )


def timeout_cause(session: Session, existing: Existing, actual: Actual, time: PlanTime) -> Cause | None:
    """Why a session has run long enough, where its provider does not end it by itself; None otherwise."""
    can, timeout = actual.capabilities, session.spec.timeout
    if timeout is None or can is None or can.timeouts:
        return None
    began = _started_at(existing)
    if began is None or not time.passed(began + timeout):
        return None
    text = f"timeout: ran for {format_duration(time.exactly() - began)} of {format_duration(timeout)}"
    return Cause(CauseCode.TIMEOUT, text)


def _started_at(existing: Existing) -> float | None:
    """When its main container was made: whoever restarts that does not make it anew."""
    main = existing.recorded.kernels[0]
    kernel = next((each for each in existing.kernels if each.id == main), None)
    made = (kernel.created or kernel.started) if kernel else None
    return made.timestamp() if made is not None else None
