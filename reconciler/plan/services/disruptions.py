"""How many replicas of a service others may push out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
