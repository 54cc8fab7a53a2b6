"""Sessions moved to join what is free: who may be moved, and the actions that do it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.defragment import Move, defragment, moved
from planner.types import Outcome, Placement, Running, Snapshot
from reconciler.diff.actions import run_action
from reconciler.diff.anew import GENERATION
from reconciler.diff.case import Case, holding_now
from reconciler.diff.decide import Decision
from reconciler.diff.snapshot import make_snapshot
from reconciler.plan import Action, Change, Notice
from schemas.session import Session

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
        if existing.protected or session.protected or identity in needed or session.spec.depends_on:
            continue
        if may_move(session):
            yield identity


def may_move(session: Session) -> bool:
    """Whether a session's document lets it be stopped in one place and started again in another.

    A batch session must also say how it goes on: by `restart` or by `checkpoint`.
    """
    spec = session.spec
    goes_on = spec.type != "batch" or spec.restart.policy != "never" or spec.checkpoint is not None
    return spec.movable and goes_on


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
        anew = replace(
            decision, need="place", changes=changes, generation=before + 1, why=f"{CAUSE}: {move.gain}"
        )
        action = run_action(case, anew, move.after)
        yield replace(action, in_turn=last, notice=_notice(decision.session))
        last = move.session


def _nodes(placement: Placement) -> str:
    return ",".join(sorted({kernel.node for kernel in placement.kernels}))


def _notice(session: Session) -> Notice | None:
    """How it is told, where it wants to save its work first."""
    checkpoint = session.spec.checkpoint
    return Notice(checkpoint.signal, float(checkpoint.grace)) if checkpoint else None


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
