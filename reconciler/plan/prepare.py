"""From what is asked of a plan to the context that its stages share. Pure."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache, partial

from planner.model.plan_time import PlanTime
from planner.model.types import NodeInfo
from reconciler.plan.context import PlanContext, Planner
from reconciler.plan.decide.replace_requests import match_sessions
from reconciler.plan.network.session_networks import require_overlay
from reconciler.plan.node_rollout import NodeRollout
from reconciler.plan.nodes.plan_rollout import plan_rollout
from reconciler.plan.place.known_outcomes import KnownOutcomes
from reconciler.plan.place.snapshot import node_infos
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.provider_change import refuse_provider_change
from reconciler.plan.services.expand import ExpansionMemory, expand_services
from reconciler.plan.services.leaving import leaving_nodes
from reconciler.plan.services.service_rollouts import NO_ROLLOUTS
from reconciler.plan.targets import plan_scope, replicas_of
from reconciler.values.plan_options import PlanOptions
from schemas.problems.errors.plan import PlanError
from schemas.values.resource_ref import ref_of

_OF_SESSIONS = frozenset({"existing", "balances", "readiness", "rollout_orders", "scales"})
"""Of what is there, what exists, sessions among it, what only the planner reads of those that ended, and what
services become sessions by."""
_APART = frozenset({"Session", "AppProxy"})
"""What is recorded of these changes nothing for other sessions: an AppProxy's has the ports of all apps."""


def prepare(request: PlanRequest) -> PlanContext:
    """The plan context: what may change, what nodes there are, and which of them are to be provisioned.

    The node rollout is decided here, before any session: its nodes take nothing new, and whoever is on them
    has to leave. Raises PlanError for a request that contradicts itself, a target or session that names
    nothing, and a cluster that goes to another provider while sessions run.
    """
    options = request.options
    _refuse_contradictions(options)
    actual, time = request.actual, PlanTime(request.now)
    desired, services = request.desired, NO_ROLLOUTS
    if not options.destroy:
        memory = request.memory.of(ExpansionMemory)
        leaving = leaving_nodes(desired, actual, _rollout_before_services(request), time)
        desired, services = expand_services(desired, actual, leaving, time, memory)
    refuse_provider_change(desired, actual)
    nodes, warnings = node_infos(desired, actual)
    place = request.memory.of(KnownOutcomes).planner(request.place or _built_in_planner())
    targets = (*options.targets, *replicas_of(options.targets, services.statuses))
    scope = plan_scope(desired, actual, targets, destroy=options.destroy)
    context = PlanContext(
        desired=desired,
        actual=actual,
        time=time,
        nodes=nodes,
        place=require_overlay(place, desired, actual),
        targets=tuple(sorted(options.targets)),
        scope=scope,
        destroy=options.destroy,
        replace_requests=match_sessions(options.replace, desired, scope, destroy=options.destroy),
        without=frozenset(options.without),
        services=services,
        node_warnings=warnings,
        memory=request.memory,
    )
    rollout = None if options.destroy else plan_rollout(desired, actual, context.may_change, context.without)
    around = request.memory.around(_around_sessions(request, scope, rollout))
    return replace(context, rollout=rollout, nodes=_cordon(nodes, rollout), around=around)


def _rollout_before_services(request: PlanRequest) -> NodeRollout | None:
    """The node rollout as far as services have to know it: which nodes wait for them. A plan for some targets
    moves no replicas for the sake of nodes, which it may not change."""
    desired, actual, options = request.desired, request.actual, request.options
    if not desired.services or not actual.complete or options.targets:
        return None
    without = frozenset(options.without)
    return plan_rollout(desired, actual, lambda identity: identity not in without, without, expanded=False)


def _around_sessions(
    request: PlanRequest, scope: frozenset[str] | None, rollout: NodeRollout | None
) -> tuple[object, ...]:
    """All that what follows from one session rests on beside that session and the time. The nodes of the
    context follow from it."""
    desired, repository, actual = request.desired, request.desired.repository, request.actual
    return (
        (desired.repo, desired.cluster, repository.stores, request.options, scope, rollout),
        (repository.without_sessions, tuple(repository.machines.values())),
        tuple(getattr(actual, each.name) for each in fields(actual) if each.name not in _OF_SESSIONS),
        tuple(each for identity, each in actual.existing.items() if ref_of(identity).kind not in _APART),
    )


def _refuse_contradictions(options: PlanOptions) -> None:
    if options.refresh_only and options.replace:
        raise PlanError(why="nothing can be started anew where only what runs is looked at")
    if options.most_moves and (options.refresh_only or options.destroy):
        raise PlanError(why="sessions are moved only by a plan of everything that is to run")


@cache
def _built_in_planner() -> Planner:
    from planner.place import place
    from planner.policies import built_in_policies

    return partial(place, policies=built_in_policies())


def _cordon(nodes: dict[str, NodeInfo], rollout: NodeRollout | None) -> dict[str, NodeInfo]:
    """The nodes, those of the rollout without room for anything new."""
    cordoned = dict(nodes)
    for name, why in rollout.cordoned_nodes() if rollout is not None else ():
        if name in cordoned and cordoned[name].state == "active":
            cordoned[name] = replace(cordoned[name], state="cordoned", note=why)
    return cordoned
