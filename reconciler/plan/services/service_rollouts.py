"""What becomes of services in one plan. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.values.changes.cause import Cause
from reconciler.values.services.state import HeldPlace, ServiceState
from reconciler.values.services.status import ServiceStatus
from schemas.kinds.session import Session


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is to be held for one service. `patterns`: generation → what a replica of it is, of `target` and
    of those in `held`."""

    count: int
    target: str
    since: float
    """When places of it were wanted first, in seconds since the epoch: their turn in the queue."""
    patterns: Mapping[str, Session]
    held: tuple[HeldPlace, ...] = ()
    last: int = 0
    """The highest number that a place was given so far."""


@dataclass(frozen=True, slots=True)
class ServiceRollouts:
    """`headroom`: by service, of those that have any. `restarts`: replicas that are to be started again, and
    why; `removals`: those that go. `states`: what is to be remembered of each service."""

    statuses: tuple[ServiceStatus, ...] = ()
    restarts: Mapping[str, Cause] = field(default_factory=lambda: MappingProxyType({}))
    removals: Mapping[str, Cause] = field(default_factory=lambda: MappingProxyType({}))
    states: Mapping[str, ServiceState] = field(default_factory=lambda: MappingProxyType({}))
    headroom: Mapping[str, Headroom] = field(default_factory=lambda: MappingProxyType({}))


NO_ROLLOUTS = ServiceRollouts()
