"""The rollout written into a plan: an action for every node of the wave, once all have left it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from planner.model.types import Reason, Wait
from reconciler.plan.context import Case
from reconciler.plan.nodes.occupants import where
from reconciler.plan.nodes.rollout import Rolling
from reconciler.plan.nodes.volume_hosts import after_nodes
from reconciler.provisioning.reasons import never_joined, unready
from reconciler.values.plan import Action, Drift, Notice, Side
from reconciler.values.rollout import NodeWait, Provision, Rollout
from reconciler.values.state import Actual, Desired, Existing

_CODES = frozenset({"no-capacity", "no-node", "impossible", "no-group"})
_SHOWN = 5


def with_nodes(case: Case, actions: Iterable[Action]) -> tuple[list[Action], Rollout | None]:
    """The actions with those of the wave's nodes, and what is said about all nodes that differ.

    A node that somebody does not leave after all stays as it is.
    """
    found, rolling = after_nodes(case, actions), case.rolling
    if rolling is None:
        return found, None
    plans = {action.id: action for action in found}
    waits = dict(rolling.waits)
    wave = []
    for node in rolling.wave:
        leavers = [each for each in case.actual.existing.values() if node in where(each)]
        stuck = next((each.id for each in leavers if not _leaves(plans.get(each.id), each, node)), "")
        if stuck:
            waits[node] = f"{stuck} does not leave it in this plan"
            continue
        wave.append(node)
        plans[f"Node/{node}"] = _provisioned(case, rolling, node, plans.get(f"Node/{node}"), leavers)
    graced = [_graced(rolling, wave, action) for action in plans.values()]
    return graced, _rollout(case, rolling, tuple(wave), waits)


def _leaves(action: Action | None, existing: Existing, node: str) -> bool:
    """Whether nothing of a resource is left on the node once the plan is carried out."""
    if action is None or action.verb == "no-op":
        return False
    after = action.after
    if after is None:
        return not action.ghosts
    kept = {*after.kernels} & {kernel.id for kernel in existing.kernels}
    on = {part.node for part in after.placement.kernels} if after.placement and after.kernels else set()
    return node not in on and not kept


def _provisioned(
    case: Case, rolling: Rolling, node: str, known: Action | None, leavers: Iterable[Existing]
) -> Action:
    """The node's own action (its document may be new, too), with its provisioning."""
    assert case.actual.upkeep is not None
    target = case.actual.upkeep.targets[node]
    declared = any(one.name == node and one.spec.hardware is not None for one in case.desired.nodes)
    provision = Provision.of(target, probe=not declared and not target.endpoint.local)
    cause = rolling.causes[node]
    base = known or _of_a_pool(case, node)
    assert base.after is not None
    return replace(
        base,
        after=replace(base.after, provision=provision),
        changes=(*base.changes, *cause.changes),
        why=cause.why if not base.why or base.why == "new" else f"{cause.why}; {base.why}",
        depends_on=tuple(sorted({*base.depends_on, *(each.id for each in leavers)})),
        warnings=(*base.warnings, *_warnings(case.actual, node)),
    )


def _of_a_pool(case: Case, node: str) -> Action:
    """A node without a document of its own: there is nothing to be recorded of it."""
    upkeep = case.actual.upkeep
    side = Side(0, "")
    before = side if upkeep is not None and upkeep.sealed(node) else None
    return Action(f"Node/{node}", case.actual.cluster, before, side)


def _warnings(actual: Actual, node: str) -> Iterator[str]:
    assert actual.upkeep is not None
    target, condition = actual.upkeep.targets[node], actual.upkeep.conditions.get(node)
    if target.endpoint.local:
        yield "it is this very machine: where a role needs a reboot, provisioning fails and says so"
    elif not target.reboot_allowed:
        yield "it is not rebooted: where a role needs that, provisioning fails and says so"
    if condition is not None and condition.reboot_pending:
        yield f"it waits for a reboot: {condition.reboot_pending}"


def _graced(rolling: Rolling, wave: Iterable[str], action: Action) -> Action:
    """A session that leaves for the wave, with the cluster's `drainGrace`."""
    grace = rolling.rules.drain_grace
    if grace is None or not action.id.startswith("Session/"):
        return action
    if not any(change.path in {f"placement.nodes.{node}" for node in wave} for change in action.changes):
        return action
    return replace(action, notice=Notice(action.notice.signal if action.notice else "", float(grace)))


def _rollout(case: Case, rolling: Rolling, wave: tuple[str, ...], waits: Mapping[str, str]) -> Rollout:
    assert case.actual.upkeep is not None
    checks = case.actual.upkeep.checks
    later = rolling.waves[1:]
    named = {*wave, *(node for each in later for node in each)}
    return Rollout(
        wave=wave,
        later=later,
        waits=tuple(NodeWait(node, why) for node, why in sorted(waits.items())),
        most=rolling.most,
        leaves={node: moved for node in sorted(named) if (moved := rolling.moves(node))},
        tasks={node: one.changed for node, one in sorted(checks.items()) if one.ok},
        unsure={
            node: _why(one.failed, one.unreachable) for node, one in sorted(checks.items()) if not one.ok
        },
    )


def _why(failed: str, unreachable: bool) -> str:
    return failed or ("not reached" if unreachable else "it did not say why")


# What others are told


def with_unready(case: Case, waits: Mapping[str, Wait]) -> dict[str, Wait]:
    """The waits, those for room with the nodes of their group that take no sessions before they are
    provisioned."""
    upkeep = case.actual.upkeep
    if upkeep is None or not waits:
        return dict(waits)
    groups: dict[str, list[tuple[str, str]]] = {}
    for node in case.desired.nodes:
        why = unready(upkeep, case.actual.standings, node.name)
        if why:
            group = case.desired.repository.group_of_node(node) or ""
            groups.setdefault(group, []).append((node.name, why))
    return {identity: _told(wait, groups.get(wait.group, [])) for identity, wait in waits.items()}


def _told(wait: Wait, nodes: list[tuple[str, str]]) -> Wait:
    if not nodes or not any(reason.code in _CODES for reason in wait.reasons):
        return wait
    alike: dict[str, list[str]] = {}
    for name, why in nodes:
        alike.setdefault(why, []).append(name)
    said = "; ".join(f"{_names(names)}: {why}" for why, names in list(alike.items())[:_SHOWN])
    more = f"; and more, for {len(alike) - _SHOWN} other reasons" if len(alike) > _SHOWN else ""
    reason = Reason("provisioning", f"nodes that take no sessions before they are provisioned: {said}{more}")
    return replace(wait, reasons=(*wait.reasons, reason))


def _names(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def node_drifts(actual: Actual) -> Iterator[Drift]:
    """What is not as it was sealed, and what waits for a reboot."""
    upkeep = actual.upkeep
    if upkeep is None:
        return
    for node, condition in sorted(upkeep.conditions.items()):
        yield from (Drift(f"Node/{node}", str(each)) for each in condition.deviations)
        if condition.sealed is not None and condition.reboot_pending:
            yield Drift(f"Node/{node}", f"waits for a reboot: {condition.reboot_pending}")


def bare(desired: Desired, actual: Actual) -> frozenset[str]:
    """Nodes that never joined: that what runs sessions does not answer there is as it must be."""
    names = (node.name for node in desired.nodes)
    return frozenset(name for name in names if never_joined(actual.upkeep, actual.standings, name))
