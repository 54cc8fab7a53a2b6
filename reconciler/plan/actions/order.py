"""The fourth stage: which action is done before which. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.model.types import Eviction, Placement
from reconciler.plan.actions.action_set import ActionSet
from reconciler.plan.context import PlanContext
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.plan.references import references
from reconciler.values.documents.recorded_documents import recorded_resource
from reconciler.values.plan import Action
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource
from schemas.values.resource_ref import identity_of, ref_of


def order_actions(context: PlanContext, acted: ActionSet, placed: PlacementResult) -> ActionSet:
    """The actions by identity, each with those that it waits for: what it refers to, and who leaves its
    room."""
    desired = context.desired
    actions = _order_by_references(acted.actions, desired.resources, desired.repository)
    return replace(acted, actions=_order_after_evictions(actions, placed.outcome.evictions))


def _order_by_references(
    actions: Iterable[Action], resources: Mapping[str, Resource], repository: Repository
) -> tuple[Action, ...]:
    """Actions by identity, each with what must be done before it: what it refers to; for a deletion, the
    deletions of what refers to it, and for a node's, what becomes of the sessions on it."""
    by_id = {action.id: action for action in sorted(actions, key=lambda each: each.id)}
    changing = {action.id for action in by_id.values() if action.verb != "no-op"}
    before = {identity: set(by_id[identity].depends_on) for identity in changing}
    for identity in sorted(changing):
        action = by_id[identity]
        if action.after is not None and identity in resources:
            refs = references(resources[identity], repository)
            before[identity] |= {ref for ref in refs if ref in changing and by_id[ref].after is not None}
        elif action.after is None and action.before is not None:
            gone = recorded_resource(identity, action.before.document)
            for ref in references(gone, repository) if gone else ():
                if ref in changing and by_id[ref].after is None:
                    before[ref].add(identity)
        for node in _placement_nodes(action.placement_before):
            leaves = by_id.get(identity_of("Node", node))
            if leaves is not None and leaves.id in changing and leaves.after is None:
                before[leaves.id].add(identity)
    return tuple(
        _waiting_for(action, before[action.id]) if action.id in before else action
        for action in by_id.values()
    )


def _order_after_evictions(actions: Iterable[Action], evictions: Iterable[Eviction]) -> tuple[Action, ...]:
    """The actions, where whoever pushes others out waits for them to be gone, and so does everybody who
    starts on their nodes; they wait for none of these."""
    pushed = {one.session: one.by for one in evictions}
    if not pushed:
        return tuple(actions)
    all_ = tuple(actions)
    victims = {action.id: _placement_nodes(action.placement_before) for action in all_ if action.id in pushed}
    made = []
    for action in all_:
        needs = set(action.depends_on)
        if action.id in pushed:
            needs = {one for one in needs if ref_of(one).kind != "Session"}
        elif action.verb != "no-op" and (where := _placement_nodes(action.placement_after)):
            needs |= {one for one, nodes in victims.items() if pushed[one] == action.id or nodes & where}
        made.append(_waiting_for(action, needs))
    return tuple(made)


def _waiting_for(action: Action, others: set[str]) -> Action:
    needs = tuple(sorted(others))
    return action if needs == action.depends_on else replace(action, depends_on=needs)


def _placement_nodes(placement: Placement | None) -> frozenset[str]:
    """Where a session is, or is to be."""
    return frozenset(part.node for part in placement.kernels) if placement else frozenset()
