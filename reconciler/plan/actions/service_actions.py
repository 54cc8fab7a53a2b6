"""What is remembered of services is written down with their documents, and whenever it changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from planner.model.slots import plural
from planner.model.types import Outcome
from reconciler.plan.actions.sides import before_side
from reconciler.plan.context import PlanContext
from reconciler.plan.place.headroom import with_held
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.plan import Action
from reconciler.values.services.state import ServiceState
from reconciler.values.sides import ServiceSide


def add_service_states(context: PlanContext, actions: Iterable[Action], outcome: Outcome) -> list[Action]:
    """The actions, those of services with their states; what is held for them is in the planner's
    `outcome`."""
    return [
        _with_state(context, each, outcome) if isinstance(each.after, ServiceSide) else each
        for each in actions
    ]


def _with_state(context: PlanContext, action: Action, outcome: Outcome) -> Action:
    wanted, existing = context.services.states.get(action.id), context.actual.existing.get(action.id)
    if wanted is None or not isinstance(action.after, ServiceSide):
        return action
    if context.may_change(action.id):
        wanted = with_held(wanted, action.id, outcome)
    before = before_side(existing) if existing is not None else None
    if not isinstance(before, ServiceSide):
        return replace(action, after=replace(action.after, state=wanted))
    known = before.state
    if wanted == known or action.verb != "no-op":
        told = replace(action, after=replace(action.after, state=wanted))
        held = "; ".join(_scale_news(known, wanted))
        return replace(told, cause=action.cause.followed_by(held)) if held and action.cause else told
    cause = Cause(CauseCode.ROLLOUT, "; ".join(_news(known, wanted)))
    return replace(action, before=before, after=replace(before, state=wanted), cause=cause)


def _news(known: ServiceState, wanted: ServiceState) -> Iterator[str]:
    old = {each.name for each in known.generations}
    yield from (f"generation {each.name} is new" for each in wanted.generations if each.name not in old)
    for name, why in wanted.failed.items():
        if name not in known.failed:
            yield f"generation {name} is given up: {why}"
    yield from _scale_news(known, wanted)
    if wanted.held != known.held:
        yield _held_news(wanted)
    if wanted.stable != known.stable:
        yield f"generation {wanted.stable} is complete"
    elif old - {each.name for each in wanted.generations} or known.failed.keys() - wanted.failed.keys():
        yield "what it no longer needs is forgotten"


def _held_news(wanted: ServiceState) -> str:
    if not wanted.held:
        return "no place is held for further replicas"
    nodes = (part.node for place in wanted.held for part in place.placement.kernels)
    count = plural(len(wanted.held), "place")
    return f"{count} held for further replicas, on {', '.join(sorted(set(nodes)))}"


def _scale_news(known: ServiceState, wanted: ServiceState) -> Iterator[str]:
    if wanted.scale != known.scale and wanted.scale is not None:
        yield f"the autoscaler holds {wanted.scale.replicas}: {wanted.scale.why}"
