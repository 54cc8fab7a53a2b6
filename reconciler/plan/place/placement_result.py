"""What the placing of a plan comes to. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from planner.advice.defragment import Move
from planner.model.types import Eviction, Outcome, Placement, Snapshot, Wait
from providers.autoscaling.values import NodeRequest
from reconciler.plan.network.session_networks import ConnectedPlacement


@dataclass(frozen=True)
class PlacementResult:
    """Made by `place_sessions`; read by `make_actions` (who starts where, who waits, who makes room), by
    `seal_plan` (what the plan says about it) and by `Study`.

    Who sits where, who waits and why, who waited too long (`cancelled`: identity → why).
    """

    outcome: Outcome
    placements: Mapping[str, Placement]
    waits: Mapping[str, Wait]
    cancelled: Mapping[str, str]
    kept: frozenset[str] = frozenset()
    """Sessions that run on as they were, because what they are to become fits nowhere yet."""
    snapshot: Snapshot | None = None
    """What the planner was asked in the end; None where there was nothing to ask."""
    moves: tuple[Move, ...] = ()
    """Sessions to be moved to join what is free."""
    connections: Mapping[str, ConnectedPlacement] = field(default_factory=dict)
    """Session → how its kernels are connected where they are to be, of all that start or go on."""
    node_requests: tuple[NodeRequest, ...] = ()
    """Nodes that an autoscaler is asked for."""
    notes: tuple[str, ...] = ()
    """Sessions that fit once the others are moved."""

    @cached_property
    def evictions(self) -> Mapping[str, Eviction]:
        """Running sessions that make room for others, by identity."""
        return {one.session: one for one in self.outcome.evictions}

    def connection(self, identity: str, placement: Placement) -> ConnectedPlacement:
        """How a session is connected where it is to be; as placed where there are no networks."""
        return self.connections.get(identity) or ConnectedPlacement(placement)
