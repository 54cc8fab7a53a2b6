"""How many replicas of a service others may push out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.model.types import Running
from reconciler.values.services.pattern import ServicePattern
from reconciler.values.services.status import ServiceStatus


def disruption_budgets(
    statuses: Iterable[ServiceStatus], services: Mapping[str, ServicePattern]
) -> dict[str, int]:
    """Service → replicas that it can do without now: so many that `unavailable` of those wanted are missing
    after it, one where that is zero, for without any `preemptible` would say nothing."""
    found = {}
    for status in statuses:
        missing = max(1, services[status.service].service.spec.update.unavailable)
        found[status.service] = max(0, status.count("ready") - (status.wanted - missing))
    return found


def with_spare_replicas(running: Iterable[Running], statuses: Iterable[ServiceStatus]) -> list[Running]:
    """The same, replicas that are not ready as such that no budget protects: one that never gets ready would
    be safe for ever, whatever its document says."""
    ready = {each.session for status in statuses for each in status.replicas if each.phase == "ready"}
    return [one if one.request.id in ready else _spare(one) for one in running]


def _spare(one: Running) -> Running:
    replica = one.request.replica_of
    if replica is None:
        return one
    return replace(one, request=replace(one.request, replica_of=replace(replica, spare=True)))
