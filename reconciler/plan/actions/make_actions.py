"""The third stage: what is done about every resource. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.model.plan_time import PlanTime
from planner.model.timed_memo import TimedMemo
from reconciler.plan.actions.action_set import ActionSet
from reconciler.plan.actions.app_port_actions import add_app_ports
from reconciler.plan.actions.charges import charge_accounts
from reconciler.plan.actions.move_actions import move_actions
from reconciler.plan.actions.resource_actions import resource_actions
from reconciler.plan.actions.service_actions import add_service_states
from reconciler.plan.actions.session_actions import session_action
from reconciler.plan.actions.volume_actions import add_folders
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decisions
from reconciler.plan.images.early_pulls import add_early_pulls
from reconciler.plan.nodes.node_actions import add_node_actions
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.values.plan import Action


class _ActionMemo(TimedMemo[Action | None]):
    """By identity of the session."""


def make_actions(context: PlanContext, decisions: Decisions, placed: PlacementResult) -> ActionSet:
    """From decisions and placements to actions.

    Sessions first, then all else by its documents. Folders of volumes, ports of apps and images on nodes are
    added to their resources' actions; nodes come last, because one is only provisioned when all that is on it
    leaves.
    """
    actions = [*_session_actions(context, decisions, placed), *resource_actions(context)]
    actions, notes = add_folders(context, add_service_states(context, actions, placed.outcome))
    actions, unmapped = add_app_ports(context, actions)
    actions, rollout = add_node_actions(context, add_early_pulls(context, actions))
    return ActionSet(charge_accounts(context, actions, placed.outcome.groups), rollout, (*notes, *unmapped))


def _session_actions(context: PlanContext, decisions: Decisions, placed: PlacementResult) -> Iterator[Action]:
    moved = {move.session for move in placed.moves}
    existing = context.actual.existing
    passed_over = {
        identity: wait
        for identity, wait in placed.waits.items()
        if (known := existing.get(identity)) is None or known.recorded.skips != wait.skips
    }

    def make(identity: str, time: PlanTime) -> Action | None:
        return session_action(replace(context, time=time), decisions.sessions[identity], placed)

    found = context.memory.of(_ActionMemo).values(
        decisions.sessions,
        (decisions.sessions, placed.placements, passed_over, placed.evictions, placed.cancelled),
        (context.around, placed.kept),
        context.time,
        make,
        # What is begun rests on the nodes and the connections of others.
        lasts=lambda action: action is None or action.verb == "no-op",
    )
    yield from (each for i, each in found.items() if each is not None and i not in moved)
    yield from move_actions(context, decisions.sessions, placed)
