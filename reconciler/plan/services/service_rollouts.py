"""What becomes of services in one plan. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.values.changes.cause import Cause
from reconciler.values.services.state import ServiceState
from reconciler.values.services.status import ServiceStatus


@dataclass(frozen=True, slots=True)
class ServiceRollouts:
    """`restarts`: replicas that are to be started again, and why; `removals`: those that go. `states`:
    what is to be remembered of each service."""

    statuses: tuple[ServiceStatus, ...] = ()
    restarts: Mapping[str, Cause] = field(default_factory=lambda: MappingProxyType({}))
    removals: Mapping[str, Cause] = field(default_factory=lambda: MappingProxyType({}))
    states: Mapping[str, ServiceState] = field(default_factory=lambda: MappingProxyType({}))


NO_ROLLOUTS = ServiceRollouts()
