"""That a session is one of several replicas, and how these are to lie on nodes. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Spread = Literal["spread", "pack"]


@dataclass(frozen=True, slots=True)
class ServiceReplica:
    """A soft topology spread over nodes: `spread` prefers those with the fewest replicas of the service,
    `pack` those with the most, of the same generation first. Nobody waits for it."""

    service: str
    """Identity."""
    generation: str = ""
    placement: Spread = "spread"
    spare: bool = False
    """Whether the service does not count on it, so that no disruption budget protects it: it is not ready."""
    held: bool = False
    """Whether it is no replica, but a place that is held for one to come."""
    restarts: bool = False
    """Whether it gives up a place of its own in the same plan, so that it takes none that is held."""
