"""The actions that move sessions to join what is free. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from planner.model.types import Placement
from reconciler.plan.actions.session_actions import checkpoint_notice, run_action
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decision
from reconciler.plan.place.moves import moved_decision
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.changes.change import move as move_change
from reconciler.values.changes.change import restart
from reconciler.values.plan import Action


def move_actions(
    context: PlanContext, decisions: Mapping[str, Decision], placed: PlacementResult
) -> Iterator[Action]:
    """One replacement for each move. They are made one after another, each only when the one before has been
    started again."""
    last = ""
    for move in placed.moves:
        decision = decisions[move.session]
        assert decision.existing is not None and decision.session is not None
        before = decision.existing.recorded.generation
        changes = (
            restart(before, before + 1),
            move_change(_node_names(move.before), _node_names(move.after)),
        )
        cause = Cause(CauseCode.DEFRAGMENTATION, f"moved by --defragment: {move.gain}")
        restarted = replace(moved_decision(decision), changes=changes, cause=cause)
        action = run_action(context, restarted, placed.connection(move.session, move.after))
        yield replace(action, in_turn=last, notice=checkpoint_notice(decision.session))
        last = move.session


def _node_names(placement: Placement) -> str:
    return ",".join(sorted({kernel.node for kernel in placement.kernels}))
