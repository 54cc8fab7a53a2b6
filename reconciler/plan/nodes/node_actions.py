"""The rollout written into a plan: an action for every node of the wave, once all have left it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from planner.model.types import Reason, Wait
from reconciler.plan.context import PlanContext
from reconciler.plan.node_rollout import NodeRollout
from reconciler.plan.nodes.occupants import occupied_nodes
from reconciler.plan.nodes.volume_hosts import order_after_nodes
from reconciler.provisioning.reasons import never_provisioned, unready_reason
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.changes.change import ChangeKind
from reconciler.values.plan import Action, Drift, Notice
from reconciler.values.rollout import NodeWait, Provision, Rollout
from reconciler.values.sides import NodeSide
from reconciler.values.state import Actual, Desired, Existing
from schemas.values.resource_ref import identity_of, ref_of

_CODES = frozenset({"no-capacity", "no-node", "impossible", "no-group"})
_SHOWN = 5


def add_node_actions(context: PlanContext, actions: Iterable[Action]) -> tuple[list[Action], Rollout | None]:
    """The actions with those of the wave's nodes, and what is said about all nodes that differ.

    A node that somebody does not leave after all stays as it is.
    """
    found, rollout = order_after_nodes(context, actions), context.rollout
    if rollout is None:
        return found, None
    plans = {action.id: action for action in found}
    waits = dict(rollout.waits)
    wave = []
    for node in rollout.wave:
        leavers = [each for each in context.actual.existing.values() if node in occupied_nodes(each)]
        stuck = next((each.id for each in leavers if not _leaves_node(plans.get(each.id), each, node)), "")
        if stuck:
            waits[node] = f"{stuck} does not leave it in this plan"
            continue
        wave.append(node)
        plans[identity_of("Node", node)] = _provision_action(
            context, rollout, node, plans.get(identity_of("Node", node)), leavers
        )
    graced = [_add_drain_grace(rollout, wave, action) for action in plans.values()]
    return graced, _summarize(context, rollout, tuple(wave), waits)


def _leaves_node(action: Action | None, existing: Existing, node: str) -> bool:
    """Whether nothing of a resource is left on the node once the plan is carried out."""
    if action is None or action.verb == "no-op":
        return False
    after = action.session_after
    if after is None:
        return not action.ghosts
    kept = {*after.kernels} & {kernel.id for kernel in existing.kernels}
    on = {part.node for part in after.placement.kernels} if after.placement and after.kernels else set()
    return node not in on and not kept


def _provision_action(
    context: PlanContext, rollout: NodeRollout, node: str, known: Action | None, leavers: Iterable[Existing]
) -> Action:
    """The node's own action (its document may be new, too), with its provisioning."""
    assert context.actual.provision_status is not None
    target = context.actual.provision_status.targets[node]
    declared = any(one.name == node and one.spec.hardware is not None for one in context.desired.nodes)
    provision = Provision.of(target, probe=not declared and not target.endpoint.local)
    reason = rollout.causes[node]
    cause = Cause(CauseCode.PROVISIONING, reason.why)
    base = known or _pool_node_action(context, node)
    assert isinstance(base.after, NodeSide)
    if base.cause is not None and base.cause.code is not CauseCode.NEW:
        cause = cause.followed_by(base.cause.text)
    return replace(
        base,
        after=replace(base.after, provision=provision),
        changes=(*base.changes, *reason.changes),
        cause=cause,
        depends_on=tuple(sorted({*base.depends_on, *(each.id for each in leavers)})),
        warnings=(*base.warnings, *_reboot_warnings(context.actual, node)),
    )


def _pool_node_action(context: PlanContext, node: str) -> Action:
    """A node without a document of its own: there is nothing to be recorded of it."""
    provision_status = context.actual.provision_status
    side = NodeSide(0, "")
    before = side if provision_status is not None and provision_status.sealed(node) else None
    return Action(identity_of("Node", node), context.actual.cluster, before, side)


def _reboot_warnings(actual: Actual, node: str) -> Iterator[str]:
    assert actual.provision_status is not None
    target, condition = actual.provision_status.targets[node], actual.provision_status.conditions.get(node)
    if target.endpoint.local:
        yield "it is this very machine: where a role needs a reboot, provisioning fails and says so"
    elif not target.reboot_allowed:
        yield "it is not rebooted: where a role needs that, provisioning fails and says so"
    if condition is not None and condition.reboot_pending:
        yield f"it waits for a reboot: {condition.reboot_pending}"


def _add_drain_grace(rollout: NodeRollout, wave: Iterable[str], action: Action) -> Action:
    """A session that leaves for the wave, with the cluster's `drainGrace`."""
    grace = rollout.rules.drain_grace
    if grace is None or ref_of(action.id).kind != "Session":
        return action
    left = {change.subject for change in action.changes if change.kind is ChangeKind.LEAVE_NODE}
    if left.isdisjoint(wave):
        return action
    return replace(action, notice=Notice(action.notice.signal if action.notice else "", float(grace)))


def _summarize(
    context: PlanContext, rollout: NodeRollout, wave: tuple[str, ...], waits: Mapping[str, str]
) -> Rollout:
    assert context.actual.provision_status is not None
    checks = context.actual.provision_status.checks
    later = rollout.waves[1:]
    named = {*wave, *(node for each in later for node in each)}
    return Rollout(
        wave=wave,
        later=later,
        waits=tuple(NodeWait(node, why) for node, why in sorted(waits.items())),
        most=rollout.max_unavailable,
        leaves={node: moved for node in sorted(named) if (moved := rollout.moved_sessions(node))},
        tasks={node: one.changed for node, one in sorted(checks.items()) if one.ok},
        unsure={
            node: _check_failure(one.failed, one.unreachable)
            for node, one in sorted(checks.items())
            if not one.ok
        },
    )


def _check_failure(failed: str, unreachable: bool) -> str:
    return failed or ("not reached" if unreachable else "it did not say why")


# What waiting sessions are told


def explain_unprovisioned(context: PlanContext, waits: Mapping[str, Wait]) -> dict[str, Wait]:
    """The waits, those for room with the nodes of their group that take no sessions before they are
    provisioned."""
    provision_status = context.actual.provision_status
    if provision_status is None or not waits:
        return dict(waits)
    groups: dict[str, list[tuple[str, str]]] = {}
    for node in context.desired.nodes:
        why = unready_reason(provision_status, context.actual.provision_records, node.name)
        if why:
            group = context.desired.repository.group_of_node(node) or ""
            groups.setdefault(group, []).append((node.name, why))
    return {
        identity: _add_provisioning_reason(wait, groups.get(wait.group, []))
        for identity, wait in waits.items()
    }


def _add_provisioning_reason(wait: Wait, nodes: list[tuple[str, str]]) -> Wait:
    if not nodes or not any(reason.code in _CODES for reason in wait.reasons):
        return wait
    alike: dict[str, list[str]] = {}
    for name, why in nodes:
        alike.setdefault(why, []).append(name)
    found = "; ".join(f"{_join_names(names)}: {why}" for why, names in list(alike.items())[:_SHOWN])
    more = f"; and more, for {len(alike) - _SHOWN} other reasons" if len(alike) > _SHOWN else ""
    reason = Reason("provisioning", f"nodes that take no sessions before they are provisioned: {found}{more}")
    return replace(wait, reasons=(*wait.reasons, reason))


def _join_names(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def node_drifts(actual: Actual) -> Iterator[Drift]:
    """What is not as it was sealed, and what waits for a reboot."""
    provision_status = actual.provision_status
    if provision_status is None:
        return
    for node, condition in sorted(provision_status.conditions.items()):
        yield from (Drift(identity_of("Node", node), str(each)) for each in condition.deviations)
        if condition.stamp is not None and condition.reboot_pending:
            yield Drift(identity_of("Node", node), f"waits for a reboot: {condition.reboot_pending}")


def never_joined_nodes(desired: Desired, actual: Actual) -> frozenset[str]:
    """Nodes that never joined: that what runs sessions does not answer there is as it must be."""
    names = (node.name for node in desired.nodes)
    return frozenset(
        name for name in names if never_provisioned(actual.provision_status, actual.provision_records, name)
    )
