"""From wave to wave: what the plans after the first one may do without asking anew. Pure."""

from __future__ import annotations

from reconciler.values.plan import Action, Plan
from reconciler.values.results import ApplyResult
from schemas.values.resource_ref import identity_of


def unannounced_changes(announced: Plan, plan: Plan) -> tuple[Action, ...]:
    """The changes of a later plan that the first one did not announce: it names the nodes of all waves, the
    sessions that have to leave them, and those that wait."""
    rollout = announced.rollout
    nodes = {identity_of("Node", node) for node in rollout.nodes} if rollout is not None else set()
    moved = (names for names in rollout.leaves.values()) if rollout is not None else ()
    known = {session for names in moved for session in names}
    known |= {wait.session for wait in announced.waits} | {action.id for action in announced.changes} | nodes
    return tuple(action for action in plan.changes if action.id not in known)


def reprovisioned_nodes(done: frozenset[str], plan: Plan) -> tuple[str, ...]:
    """Nodes that were provisioned just now and are to be provisioned again: they do not stay as they are
    made."""
    return tuple(node for node in plan.rollout.wave if node in done) if plan.rollout is not None else ()


def provisioned_nodes(plan: Plan, result: ApplyResult) -> frozenset[str]:
    """The nodes of its wave that were provisioned."""
    done = {each.action for each in result.results if each.outcome == "done"}
    wave = plan.rollout.wave if plan.rollout is not None else ()
    return frozenset(node for node in wave if identity_of("Node", node) in done)
