"""What services wait for, once it is known who gets a place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.model.types import Outcome, Running, Wait
from reconciler.values.services.state import place_service
from reconciler.values.services.status import HeldStatus, ReplicaStatus, ServiceStatus


def service_statuses(
    found: Iterable[ServiceStatus], waits: Mapping[str, Wait], outcome: Outcome, running: Iterable[Running]
) -> tuple[ServiceStatus, ...]:
    """With the waits of their replicas, and with what is held for them. `running`: before the plan."""
    statuses = tuple(_with_waits(each, waits) for each in found)
    if not any(each.headroom for each in statuses):
        return statuses
    lent = _lent(outcome, running)
    return tuple(_with_held(each, outcome, lent) if each.headroom else each for each in statuses)


def _lent(outcome: Outcome, running: Iterable[Running]) -> Mapping[str, list[str]]:
    """By held place (id), who runs there once the plan is carried out."""
    gone = {one.session for one in outcome.evictions}
    there = (one.placement for one in running if one.request.id not in gone)
    found: dict[str, list[str]] = {}
    for one in (*outcome.placements, *there):
        for place in one.lent:
            found.setdefault(place, []).append(one.session)
    return found


def _with_held(status: ServiceStatus, outcome: Outcome, lent: Mapping[str, list[str]]) -> ServiceStatus:
    held = tuple(
        HeldStatus(one.placement, tuple(sorted(lent.get(one.request.id, ()))))
        for one in outcome.held
        if one.request.replica_of is not None and one.request.replica_of.service == status.service
    )
    why = [wait for wait in outcome.unheld if place_service(wait.session) == status.service]
    missing = why[0] if why and len(held) < status.headroom else None
    return replace(status, held=held, unheld=_reason(missing) if missing is not None else "")


def _with_waits(status: ServiceStatus, waits: Mapping[str, Wait]) -> ServiceStatus:
    waiting = [waits[each.session] for each in status.replicas if each.session in waits]
    if not waiting:
        return status
    replicas = tuple(_waiting(each, waits.get(each.session)) for each in status.replicas)
    why = f"{len(waiting)} of its replicas wait for room: {_reason(waiting[0])}"
    if status.phase == "progressing" and status.count("ready") >= status.wanted:
        why += "; `update.unavailable` lets an old one go first"
    return replace(status, replicas=replicas, why=f"{status.why}; {why}" if status.why else why)


def _waiting(replica: ReplicaStatus, wait: Wait | None) -> ReplicaStatus:
    return replace(replica, phase="waiting", why=_reason(wait)) if wait is not None else replica


def _reason(wait: Wait) -> str:
    return wait.reasons[0].message if wait.reasons else "its turn has not come"
