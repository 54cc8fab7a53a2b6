"""Sessions moved to join what is free: who may be moved, and what that gains. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.advice.defragment import Move, defragment, snapshot_after_moves
from planner.model.types import Outcome, Running, Snapshot
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decision
from reconciler.plan.decide.drain import may_move
from reconciler.plan.place.cluster_views import snapshot_before
from schemas.values.resource_ref import identity_of


def choose_moves(
    context: PlanContext, decisions: Mapping[str, Decision], after: Snapshot, most: int
) -> tuple[Move, ...]:
    """The moves that are worth it once the plan is carried out (`after`), at most `most`.

    Room that the plan itself frees is not counted on: a session that was stopped for a move must not find its
    new place taken because something else failed.
    """
    stay = {one.request.id: one.placement for one in after.running}
    before = snapshot_before(context)
    leaving = tuple(_as_leaving(one) for one in before.running if stay.get(one.request.id) != one.placement)
    both = replace(after, running=(*after.running, *leaving))
    return defragment(both, frozenset(_movable(context, decisions)), most)


def _as_leaving(one: Running) -> Running:
    identity = identity_of("Leaving", one.request.id)
    return replace(
        one, request=replace(one.request, id=identity), placement=replace(one.placement, session=identity)
    )


def _movable(context: PlanContext, decisions: Mapping[str, Decision]) -> Iterator[str]:
    """Sessions whose documents allow it, that run as they should, and on which nobody depends."""
    sessions = context.desired.sessions()
    needed = {name for session in sessions.values() for name in session.spec.depends_on}
    for identity, decision in decisions.items():
        session, existing = decision.session, decision.existing
        if session is None or existing is None or decision.need != "keep" or decision.changes:
            continue
        if not context.may_change(identity) or existing.phase != "RUNNING" or existing.missing:
            continue
        if decision.placement is None or any(k.node not in context.nodes for k in decision.placement.kernels):
            continue
        if existing.protected or session.protected or identity in needed or session.spec.depends_on:
            continue
        if may_move(session):
            yield identity


def moved_decision(decision: Decision) -> Decision:
    """The decision of a session that is moved: another generation of it."""
    assert decision.existing is not None
    return replace(decision, need="place", generation=decision.existing.recorded.generation + 1)


def move_notes(context: PlanContext, after: Snapshot, moves: Sequence[Move]) -> Iterator[str]:
    """A line for every session that waits and for which the moves make room."""
    if moves:
        for placement in context.place(snapshot_after_moves(after, moves)).placements:
            yield f"{placement.session} fits once the sessions are moved: plan again then"


def outcome_after_moves(
    context: PlanContext, outcome: Outcome, after: Snapshot, moves: Sequence[Move]
) -> Outcome:
    """The outcome with what the groups are left with after the moves."""
    if not moves:
        return outcome
    uses = {
        use.group: use
        for use in context.place(replace(snapshot_after_moves(after, moves), pending=())).groups
    }
    groups = tuple(
        replace(use, after=uses[use.group].after, fits_after=uses[use.group].fits_after)
        if use.group in uses
        else use
        for use in outcome.groups
    )
    return replace(outcome, groups=groups)
