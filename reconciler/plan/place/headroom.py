"""Places that are held for replicas of services to come, in the planner's words and back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf, nextafter
from typing import NamedTuple

from planner.model.types import KernelPlacement, Outcome, Reason, Running, SessionRequest, Snapshot, Wait
from reconciler.plan.context import PlanContext
from reconciler.plan.images.requirements import common_architectures, image_obstacle
from reconciler.plan.nodes.volume_hosts import volume_obstacle
from reconciler.plan.place import gpu_fractions
from reconciler.plan.planner_values import held_slots, session_request
from reconciler.plan.services.service_rollouts import Headroom
from reconciler.values.services.state import HeldPlace, ServiceState, place_id
from schemas.kinds.session import Session


class PlannedHeadroom(NamedTuple):
    """What the planner is asked: places that are `held` already, and `wanted` ones: as many as there are to
    be in all, for it alone knows which of the others are taken or lost. `refused`: those that it cannot be
    asked for."""

    held: tuple[Running, ...] = ()
    wanted: tuple[SessionRequest, ...] = ()
    refused: tuple[Wait, ...] = ()


def planned_headroom(context: PlanContext) -> PlannedHeadroom:
    """Of all services. Where a plan may not change a service, what is held for it is held on."""
    held: list[Running] = []
    wanted: list[SessionRequest] = []
    refused: list[Wait] = []
    for service, wish in sorted(context.services.headroom.items()):
        session, first = wish.patterns[wish.target], place_id(service, wish.last + 1)
        if why := _obstacle(context, session):
            refused.append(Wait(first, session.spec.resource_group or "", 0, (why,)))
            continue
        held += [_as_held(context, service, wish, place) for place in wish.held]
        numbers = range(wish.last + 1, wish.last + 1 + wish.count) if context.may_change(service) else ()
        asked = _request(context, service, session, wish.since)
        wanted += [replace(asked, id=place_id(service, number)) for number in numbers]
    return PlannedHeadroom(tuple(held), tuple(wanted), tuple(refused))


def with_headroom(snapshot: Snapshot, places: PlannedHeadroom) -> Snapshot:
    """What the planner is asked, with the places; the same object where there are none."""
    if not places.held and not places.wanted:
        return snapshot
    return replace(snapshot, held=places.held, pending=(*snapshot.pending, *places.wanted))


def _obstacle(context: PlanContext, session: Session) -> Reason | None:
    """Why the planner is not asked, as for a session."""
    why = gpu_fractions.fraction_obstacle(session, context.desired, context.actual.capabilities)
    if why:
        return Reason("fraction-not-enforced", why)
    return image_obstacle(session, context.desired, context.actual) or volume_obstacle(session, context)


def _request(context: PlanContext, service: str, session: Session, since: float) -> SessionRequest:
    """What a replica asks for, of a session that never runs."""
    architectures = frozenset(node.hardware.architecture for node in context.nodes.values())
    asked = session_request(
        session,
        context.desired.repository,
        enqueued=nextafter(since, inf),  # After the replicas that are wanted since then.
        architectures=common_architectures(session, context.desired, context.actual, architectures),
    )
    able = gpu_fractions.enforcing_nodes(session, context.desired, context.actual.capabilities)
    if able is not None:
        asked = replace(asked, designated=able & asked.designated or able)
    replica = asked.replica_of
    assert replica is not None, f"a pattern of {service} is one of replicas"
    return replace(asked, preemptible=False, depends_on=frozenset(), replica_of=replace(replica, held=True))


def _as_held(context: PlanContext, service: str, wish: Headroom, place: HeldPlace) -> Running:
    """As of the generation that the service goes to, where a replica of it asks for the same."""
    name = place_id(service, place.number)
    asked = _request(context, service, wish.patterns[wish.target], wish.since)
    if place.generation != wish.target and not _is_alike(asked, place):
        asked = _request(context, service, wish.patterns[place.generation], wish.since)
    return Running(replace(asked, id=name), replace(place.placement, session=name, group=asked.group))


def _is_alike(asked: SessionRequest, place: HeldPlace) -> bool:
    parts: Mapping[str, KernelPlacement] = {part.kernel: part for part in place.placement.kernels}
    if parts.keys() != {kernel.name for kernel in asked.kernels}:
        return False
    return all(_gives(held_slots(place.placement, each.name), each.slots) for each in asked.kernels)


def _gives(has: Mapping[str, int], asked: Mapping[str, int]) -> bool:
    """Parts of GPUs are rounded, and held by other names: they are placed anew."""
    return {slot: amount for slot, amount in has.items() if amount} == {
        slot: amount for slot, amount in asked.items() if amount
    }


def with_held(state: ServiceState, service: str, outcome: Outcome) -> ServiceState:
    """What is to be remembered of a service after the plan."""
    held = tuple(sorted(_held_places(service, outcome), key=lambda place: place.number))
    return replace(state, held=held, last_held=max((place.number for place in held), default=state.last_held))


def _held_places(service: str, outcome: Outcome) -> Iterator[HeldPlace]:
    for one in outcome.held:
        replica = one.request.replica_of
        if replica is not None and replica.service == service:
            number = int(one.request.id.rpartition("-")[2])
            yield HeldPlace(number, replica.generation, one.placement)
