"""How a service stands, and what a plan does about it. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.model.types import Placement

ReplicaPhase = Literal["new", "waiting", "starting", "ready", "unready", "ended", "away", "leaving"]
"""`new`: this plan creates it; `waiting`: for room; `starting`: it was never ready; `leaving`: this plan
takes it away."""
ServicePhase = Literal["complete", "progressing", "paused", "failed", "split"]
"""`failed`: the document's generation was given up; `split`: `traffic` keeps several."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    session: str
    """Identity."""
    generation: str
    phase: ReplicaPhase
    weight: float = 0.0
    """Its part of all requests compared with other replicas': 0 gets none."""
    why: str = ""
    """Of a phase that needs saying."""


@dataclass(frozen=True, slots=True)
class HeldStatus:
    """A place that is held for a replica to come. `lent`: sessions (identities) that run there and give way
    to it."""

    placement: Placement
    lent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """As of one plan. `wanted` replicas; `latest` is the document's generation, `target` the one that the
    service goes to: another one where `latest` was given up, or somebody wants it (`why`)."""

    service: str
    """Identity."""
    wanted: int
    latest: str
    target: str
    stable: str
    phase: ServicePhase
    why: str = ""
    replicas: tuple[ReplicaStatus, ...] = ()
    scale: str = ""
    """Why `wanted` is not the document's number; empty where it is."""

    headroom: int = 0
    """Places that are to be held for replicas to come."""
    held: tuple[HeldStatus, ...] = ()
    unheld: str = ""
    """Why fewer are held than `headroom`; empty where all are."""

    def count(self, *phases: ReplicaPhase) -> int:
        return sum(each.phase in phases for each in self.replicas)
