"""What services wait for, once it is known who gets a place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.model.types import Wait
from reconciler.values.services.status import ReplicaStatus, ServiceStatus


def service_statuses(found: Iterable[ServiceStatus], waits: Mapping[str, Wait]) -> tuple[ServiceStatus, ...]:
    """With the waits of their replicas."""
    return tuple(_with_waits(each, waits) for each in found)


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
