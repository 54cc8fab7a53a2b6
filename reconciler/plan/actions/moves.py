"""Sessions moved to join what is free: who may be moved, and the actions that do it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.advice.defragment import Move, defragment, moved
from planner.model.types import Outcome, Placement, Running, Snapshot
from reconciler.plan.actions.session_actions import checkpoint_notice, run_action
from reconciler.plan.context import Case, holding_now
from reconciler.plan.decide.drain import may_move
from reconciler.plan.decide.replace_requests import GENERATION
from reconciler.plan.decide.session_needs import Decision
from reconciler.plan.place.snapshot import make_snapshot
from reconciler.values.plan import Action, Change

CAUSE = "moved by --defragment"


def proposed(case: Case, found: Mapping[str, Decision], after: Snapshot, most: int) -> tuple[Move, ...]:
    """The moves that are worth it once the plan is carried out (`after`), at most `most`.

    Room that the plan itself frees is not counted on: a session that was stopped for a move must not find its
    new place taken because something else failed.
    """
    stay = {one.request.id: one.placement for one in after.running}
    before = make_snapshot(case.desired, case.actual, case.nodes, holding_now(case.actual), (), case.now)
    leaving = tuple(_left(one) for one in before.running if stay.get(one.request.id) != one.placement)
    both = replace(after, running=(*after.running, *leaving))
    return defragment(both, frozenset(_movable(case, found)), most)


def _left(one: Running) -> Running:
    identity = f"Leaving/{one.request.id}"
    return replace(
        one, request=replace(one.request, id=identity), placement=replace(one.placement, session=identity)
    )


def _movable(case: Case, found: Mapping[str, Decision]) -> Iterator[str]:
    """Sessions whose documents allow it, that run as they should, and on which nobody depends."""
    sessions = case.desired.sessions()
    needed = {name for session in sessions.values() for name in session.spec.depends_on}
    for identity, decision in found.items():
        session, existing = decision.session, decision.existing
        if session is None or existing is None or decision.need != "keep" or decision.changes:
            continue
        if not case.touches(identity) or existing.phase != "RUNNING" or existing.missing:
            continue
        if decision.placement is None or any(k.node not in case.nodes for k in decision.placement.kernels):
            continue
        if existing.protected or session.protected or identity in needed or session.spec.depends_on:
            continue
        if may_move(session):
            yield identity


def move_actions(case: Case, found: Mapping[str, Decision], moves: Sequence[Move]) -> Iterator[Action]:
    """One replacement for each move. They are made one after another, each only when the one before has been
    started again."""
    last = ""
    for move in moves:
        decision = found[move.session]
        assert decision.existing is not None and decision.session is not None
        before = decision.existing.recorded.generation
        there, here = _nodes(move.before), _nodes(move.after)
        changes = (
            Change(GENERATION, str(before), str(before + 1), forces=True),
            Change("placement.nodes", there, here, forces=True),
        )
        anew = replace(moving(decision), changes=changes, why=f"{CAUSE}: {move.gain}")
        action = run_action(case, anew, move.after)
        yield replace(action, in_turn=last, notice=checkpoint_notice(decision.session))
        last = move.session


def moving(decision: Decision) -> Decision:
    """The decision of a session that is moved: another generation of it."""
    assert decision.existing is not None
    return replace(decision, need="place", generation=decision.existing.recorded.generation + 1)


def _nodes(placement: Placement) -> str:
    return ",".join(sorted({kernel.node for kernel in placement.kernels}))


def fitting(case: Case, after: Snapshot, moves: Sequence[Move]) -> Iterator[str]:
    """A line for every session that waits and for which the moves make room."""
    if moves:
        for placement in case.place(moved(after, moves)).placements:
            yield f"{placement.session} fits once the sessions are moved: plan again then"


def with_moves(case: Case, outcome: Outcome, after: Snapshot, moves: Sequence[Move]) -> Outcome:
    """The outcome with what the groups are left with after the moves."""
    if not moves:
        return outcome
    uses = {use.group: use for use in case.place(replace(moved(after, moves), pending=())).groups}
    groups = tuple(
        replace(use, after=uses[use.group].after, fits_after=uses[use.group].fits_after)
        if use.group in uses
        else use
        for use in outcome.groups
    )
    return replace(outcome, groups=groups)
