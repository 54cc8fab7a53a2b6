"""Whether a service can be asked: by its replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.values.documents.service_replicas import replica_of
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from reconciler.values.services.status import ServiceStatus
    from reconciler.values.state import Actual

_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class ServiceStanding:
    """`phase`: RUNNING where at least one replica is ready, else PENDING, with the `reason` in words."""

    phase: str
    reason: str = ""


def standing_of(status: ServiceStatus | None) -> ServiceStanding:
    """As a plan says it; None: of which no plan says anything yet."""
    if status is None:
        return ServiceStanding("PENDING", "it was not planned yet")
    if status.count("ready"):
        return ServiceStanding("RUNNING")
    return _waiting([_replica_text(each.session, each.phase, each.why) for each in status.replicas])


def observed_standing(service: str, actual: Actual) -> ServiceStanding:
    """As its replicas were seen, of a service by its identity."""
    waits = []
    for identity, phase in _replicas(service, actual):
        answer = actual.readiness.get(identity)
        if phase == "RUNNING" and (answer is None or answer.ready):
            return ServiceStanding("RUNNING")
        why = answer.why if answer is not None and phase == "RUNNING" else ""
        waits.append(_replica_text(identity, phase, why))
    return _waiting(waits)


def _replicas(service: str, actual: Actual) -> Iterator[tuple[str, str]]:
    """Identities and phases."""
    for identity, existing in actual.existing.items():
        ref = replica_of(existing)
        if ref is not None and ref.service == service:
            yield identity, existing.phase


def _replica_text(identity: str, phase: str, why: str) -> str:
    return f"{ref_of(identity).name} is {phase}{f' ({why})' if why else ''}"


def _waiting(waits: list[str]) -> ServiceStanding:
    more = f" and {len(waits) - _MOST_REASONS} more" if len(waits) > _MOST_REASONS else ""
    told = f"no replica is ready: {', '.join(waits[:_MOST_REASONS])}{more}" if waits else "it has no replicas"
    return ServiceStanding("PENDING", told)


def standings(services: tuple[ServiceStatus, ...]) -> Mapping[str, ServiceStanding]:
    """By identity."""
    return {each.service: standing_of(each) for each in services}
