"""The last stage: the plan as one value, with everything that is said, judged and sealed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from planner.model.plan_time import PlanTime
from planner.model.timed_memo import TimedMemo
from planner.model.types import Wait
from reconciler.plan.actions.action_set import ActionSet
from reconciler.plan.actions.volume_actions import volume_drifts
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decisions
from reconciler.plan.decide.node_health import health_drifts, health_notes
from reconciler.plan.decide.node_loss import node_loss_drifts
from reconciler.plan.drift import session_drifts
from reconciler.plan.images.image_drift import image_drifts
from reconciler.plan.nodes.node_actions import never_joined_nodes, node_drifts
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.plan.services.hindrance import service_statuses
from reconciler.plan.unenforced_limits import cluster_warnings
from reconciler.plan.verdict import add_verdict
from reconciler.values.documents.service_replicas import relied_replicas
from reconciler.values.encoding.fingerprint import state_fingerprint
from reconciler.values.encoding.plan_json import with_digest
from reconciler.values.plan import Drift, Plan, Unreached
from reconciler.values.state import Actual, Existing
from schemas.problems.problem import Problem
from schemas.values.once_per_value import last_per_value


class _OwnDrifts(NamedTuple):
    """What follows from a resource and its document."""

    limits: tuple[Drift, ...]
    images: tuple[Drift, ...]


_NONE = _OwnDrifts((), ())


class _DriftMemo(TimedMemo[_OwnDrifts]):
    """By identity of what exists."""


def seal_plan(
    context: PlanContext, decisions: Decisions, placed: PlacementResult, acted: ActionSet, *, sealed: bool
) -> Plan:
    """The plan, judged by the cluster's policies. `sealed`: with its digest, and what it was made from.
    Raises PlanError for a policy that cannot be read."""
    outcome = placed.outcome
    changed = (action.id for action in acted.actions if action.verb != "no-op")
    plan = replace(
        _plan_without_actions(context, sealed, changed),
        actions=acted.actions,
        rollout=acted.rollout,
        waits=tuple(
            sorted(
                (_as_before(context, wait) for wait in placed.waits.values()),
                key=lambda wait: (wait.group, wait.position, wait.session),
            )
        ),
        quotas=outcome.quotas,
        groups=outcome.groups,
        node_requests=placed.node_requests,
        services=service_statuses(
            context.services.statuses,
            placed.waits,
            outcome,
            placed.snapshot.running if placed.snapshot is not None else (),
        ),
        warnings=_warnings(context, decisions, placed, acted),
    )
    judged = add_verdict(context, plan)
    return with_digest(judged) if sealed else judged


def seal_refresh(context: PlanContext, *, sealed: bool) -> Plan:
    """The plan that only says what was found: nothing is decided, and nothing done."""
    plan = _plan_without_actions(context, sealed)
    return with_digest(plan) if sealed else plan


def _plan_without_actions(context: PlanContext, sealed: bool, changed: Iterable[str] = ()) -> Plan:
    """`changed`: the resources that the plan will change, by identity."""
    desired, actual = context.desired, context.actual
    never_joined = never_joined_nodes(desired, actual)
    return Plan(
        repo=desired.repo,
        cluster=desired.cluster,
        commit=desired.commit,
        tree=desired.tree,
        basis=state_fingerprint(actual, relied_replicas(actual.existing, changed)) if sealed else "",
        complete=actual.complete,
        actions=(),
        drifts=_drifts(context),
        warnings=_observation_warnings(actual),
        targets=context.targets,
        unreached=tuple(
            Unreached(node, one.why, one.since)
            for node, one in sorted(actual.missed.items())
            if node not in never_joined
        ),
        made_at=context.time.seconds,
    )


def _warnings(
    context: PlanContext, decisions: Decisions, placed: PlacementResult, acted: ActionSet
) -> tuple[str, ...]:
    """In the order of the stages; who destroys everything is not told what documents or nodes lack."""
    actual, starting = context.actual, [each for each in acted.actions if each.verb != "no-op"]
    found = list(_observation_warnings(actual))
    if not context.destroy:
        found += _document_warnings(context.desired.repository.warnings)
        found += (*context.node_warnings, *decisions.notes)
        found += (*health_notes(context.nodes.values(), actual), *placed.notes)
    found += (*acted.notes, *placed.outcome.warnings)
    if any(action.session_after and action.session_after.specs for action in starting):
        found += cluster_warnings(actual.capabilities)
    return tuple(found)


def _as_before(context: PlanContext, wait: Wait) -> Wait:
    """The same object as in the plan before, where the wait is the same: what was made of it is known."""
    existing = context.actual.existing.get(wait.session)
    return wait if existing is None else _last_wait(existing, wait)


@last_per_value
def _last_wait(existing: Existing, wait: Wait) -> Wait:
    return wait


def _document_warnings(warnings: Iterable[Problem]) -> Iterator[str]:
    """Of those that say the same, the first, and how many others there are."""
    alike: dict[tuple[str, str], list[Problem]] = {}
    for warning in warnings:
        alike.setdefault((warning.code, warning.message), []).append(warning)
    for first, *others in alike.values():
        more = f" (and {len(others)} more like it: `bai validate`)" if others else ""
        yield f"{first}{more}"


def _drifts(context: PlanContext) -> tuple[Drift, ...]:
    actual = context.actual
    there = [each for _, each in sorted(actual.existing.items())]
    lost = (each for each in there if each.away or each.recorded.ghosts)
    away = (node_loss_drifts(each, actual, context.desired, context.time) for each in lost)
    holders = there if any(one.unfit for one in actual.health.values()) else ()
    sick = (health_drifts(each, actual.health) for each in holders)
    of_each = [each for each in _own_drifts(context).values() if each != _NONE]
    found, images = (each.limits for each in of_each), (each.images for each in of_each)
    own = (drift for each in (*found, *away, *sick, *images) for drift in each)
    return (*own, *volume_drifts(context), *node_drifts(context.actual))


def _own_drifts(context: PlanContext) -> Mapping[str, _OwnDrifts]:
    """Of each that exists, in the order of identities."""
    existing, capabilities = context.actual.existing, context.actual.capabilities

    def make(identity: str, time: PlanTime) -> _OwnDrifts:
        each = existing[identity]
        images = tuple(image_drifts(context, each)) if each.kernels else ()
        return _OwnDrifts(session_drifts(each, capabilities), images)

    inputs = (existing, context.desired.sessions())
    return context.memory.of(_DriftMemo).values(sorted(existing), inputs, context.around, context.time, make)


def _observation_warnings(actual: Actual) -> tuple[str, ...]:
    warnings = []
    if not actual.complete:
        why = "; ".join(actual.errors) or "the provider could not say why"
        warnings.append(f"what runs could not be observed completely, no session is touched: {why}")
    if actual.unlabelled:
        warnings.append(f"found without readable labels, left alone: {', '.join(sorted(actual.unlabelled))}")
    if actual.claimed:
        claims = ", ".join(sorted(f"{each.kernel} on {each.node}" for each in actual.claimed))
        warnings.append(f"nodes show kernels that are other nodes', which is not believed: {claims}")
    return (*warnings, *actual.doubts)
