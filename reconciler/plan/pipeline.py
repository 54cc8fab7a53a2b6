"""How a plan is made: one request in, one plan out. Pure: same inputs, same bytes.

    prepare          PlanRequest → PlanContext
    decide_sessions  PlanContext → Decisions           what each session needs
    place_sessions   ... Decisions → PlacementResult   where it is to be
    make_actions     ... PlacementResult → ActionSet   what is done about each resource
    order_actions    ... ActionSet → ActionSet         which action waits for which
    seal_plan        ... ActionSet → Plan              warnings, the verdict of policies, the digest

Deciding comes before placing because the planner is asked once, for all sessions together: it must know who
leaves and who stays before it gives their room to others. Actions come after placing because what happens to
a session depends on whether there is a new place for it: nothing that runs is stopped for a change that fits
nowhere. Ordering needs all actions, as they wait for each other, and policies judge what would really be
done. No stage reads what a later one makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reconciler.plan.actions.make_actions import make_actions
from reconciler.plan.actions.order import order_actions
from reconciler.plan.context import PlanMemory
from reconciler.plan.decide.decide_sessions import decide_sessions
from reconciler.plan.place.place_sessions import place_sessions
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.prepare import prepare
from reconciler.plan.seal import seal_plan, seal_refresh
from reconciler.plan.study import Study
from reconciler.values.plan import Plan


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """`valid_until`: seconds since the epoch, exclusive. `study`: what it was made in; None where nothing was
    decided."""

    plan: Plan
    valid_until: float
    study: Study | None = None


def make_plan(request: PlanRequest) -> Plan:
    """What an apply would do, and why the rest is not done. What is protected, or against a Policy, stands in
    the plan's `violations`. Raises PlanError for a request that cannot be met."""
    return make_timed_plan(request).plan


def make_timed_plan(request: PlanRequest) -> TimedPlan:
    """The same, and until when it is the plan of an equal request."""
    if request.options.refresh_only:
        context = prepare(request)
        return TimedPlan(seal_refresh(context, sealed=request.sealed), context.time.valid_until)
    study = make_study(request)
    return TimedPlan(study.plan, study.context.time.valid_until, study)


def make_study(request: PlanRequest) -> Study:
    """The plan, with the planner's view of the cluster before and after it."""
    context = prepare(request)
    decisions = decide_sessions(context)
    placed = place_sessions(context, decisions, request.options.most_moves)
    actions = make_actions(context, decisions, placed)
    ordered = order_actions(context, actions, placed)
    plan = seal_plan(context, decisions, placed, ordered, sealed=request.sealed)
    return Study(plan, replace(context, memory=PlanMemory()), placed)
