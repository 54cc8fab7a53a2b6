"""The second stage: where every session is to be, and how its kernels are connected there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decision, Decisions
from reconciler.plan.network.session_networks import ConnectedPlacement, connect_sessions
from reconciler.plan.nodes.node_actions import explain_unprovisioned
from reconciler.plan.place.cluster_views import snapshot_after
from reconciler.plan.place.moves import choose_moves, move_notes, moved_decision, outcome_after_moves
from reconciler.plan.place.node_requests import ask_for_nodes
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.plan.place.solve import solve


def place_sessions(context: PlanContext, decisions: Decisions, most_moves: int = 0) -> PlacementResult:
    """From decisions to placements: whoever waits or changes is placed first, then at most `most_moves`
    others are moved in what that leaves. Networks come last: ports belong to the nodes that were chosen."""
    result = solve(context, decisions.sessions)
    result = replace(result, waits=explain_unprovisioned(context, result.waits))
    if most_moves:
        result = _move_sessions(context, decisions.sessions, result, most_moves)
    result = ask_for_nodes(context, result)
    return replace(result, connections=_connect(context, decisions.sessions, result))


def _move_sessions(
    context: PlanContext, decisions: Mapping[str, Decision], result: PlacementResult, most: int
) -> PlacementResult:
    after = snapshot_after(context, result)
    moves = choose_moves(context, decisions, after, most)
    return replace(
        result,
        outcome=outcome_after_moves(context, result.outcome, after, moves),
        moves=moves,
        notes=tuple(move_notes(context, after, moves)),
    )


def _connect(
    context: PlanContext, decisions: Mapping[str, Decision], result: PlacementResult
) -> Mapping[str, ConnectedPlacement]:
    """The networks of all that starts or goes on."""
    places = {
        each.id: each.placement for each in decisions.values() if each.need == "repair" and each.placement
    }
    places |= {i: at for i, at in result.placements.items() if i in decisions and i not in result.kept}
    moved = {move.session: moved_decision(decisions[move.session]) for move in result.moves}
    places |= {move.session: move.after for move in result.moves}
    return connect_sessions(context.desired, context.actual, context.nodes, {**decisions, **moved}, places)
