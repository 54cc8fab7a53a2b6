"""The first stage: what every session needs, before anybody is placed. Pure."""

from __future__ import annotations

from dataclasses import replace

from planner.model.plan_time import PlanTime
from planner.model.timed_memo import TimedMemo
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decision, Decisions
from reconciler.plan.decide.drain import blocked_drains
from reconciler.plan.decide.lifecycle import apply_lifecycle
from reconciler.plan.decide.node_health import leave_unfit_gpus
from reconciler.plan.decide.node_loss import unknown_nodes
from reconciler.plan.decide.replace_requests import add_replace_requests, error_notes
from reconciler.plan.decide.session_needs import decide_session
from reconciler.values.changes.cause import DESTROYED
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import LIVE
from reconciler.values.state import Existing
from schemas.values.resource_ref import ref_of


class _DecisionMemo(TimedMemo[Decision | None]):
    """By identity of the session."""


def decide_sessions(context: PlanContext) -> Decisions:
    """From documents and observation to one decision per session.

    First what documents and time ask for, then what a person asked for, which needs to know it; last whether
    the GPUs are fit on which a session is to start again, for whatever reason it does.
    """
    requests = context.replace_requests if context.actual.complete else ()
    # Why a replica goes or starts again follows from others as well, which what is remembered of it does not.
    sessions = add_replace_requests(_decide_each(context), requests, context.services.restarts)
    for identity, cause in context.services.removals.items():
        if identity in sessions and sessions[identity].need == "delete":
            sessions[identity] = replace(sessions[identity], cause=cause)
    sessions = leave_unfit_gpus(sessions, context.actual)
    return Decisions(sessions, (*error_notes(sessions), *blocked_drains(context, sessions)))


def _decide_each(context: PlanContext) -> dict[str, Decision]:
    """One decision per session that is desired or exists; sessions out of scope are left as they are."""
    actual, desired = context.actual, context.desired
    nodes = {node.name: node for node in desired.nodes}
    leaving = context.rollout.nodes_to_empty() if context.rollout is not None else {}
    unknown = bool(unknown_nodes(actual, desired))
    wanted = {} if context.destroy else desired.sessions()

    def decide(identity: str, time: PlanTime) -> Decision | None:
        existing = actual.existing.get(identity)
        if existing is None and unknown:
            return None  # It may be on one of these nodes, and a record would say that it is not.
        if not context.may_change(identity):
            return _keep_as_it_is(existing) if existing is not None else None
        if context.destroy:
            return Decision(identity, "delete", None, existing, cause=DESTROYED)
        need = decide_session(identity, desired, existing, actual.capabilities, nodes, leaving)
        return apply_lifecycle(need, desired, actual, time)

    others = [i for i in actual.existing if i not in wanted and ref_of(i).kind == "Session"]
    decided = context.memory.of(_DecisionMemo).values(
        sorted([*wanted, *others]), (wanted, actual.existing), context.around, context.time, decide
    )
    return {identity: decision for identity, decision in decided.items() if decision is not None}


def _keep_as_it_is(existing: Existing) -> Decision:
    record = existing.recorded
    holds = existing.phase in HOLDING or any(kernel.state in LIVE for kernel in existing.kernels)
    return Decision(
        existing.id,
        "keep" if holds else "ended",
        None,
        existing,
        placement=record.placement if holds else None,
        generation=record.generation,
    )
