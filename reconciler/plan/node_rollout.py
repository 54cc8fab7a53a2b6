"""The node rollout of one plan: which nodes are emptied and provisioned, in which waves. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.provisioning.reasons import ProvisionReason
from schemas.kinds.parts.provisioning import Provisioning

Wave = tuple[str, ...]
"""Nodes that are provisioned together, by name."""


@dataclass(frozen=True, slots=True)
class Occupant:
    """Somebody on a node. `stays`: why it cannot be made to leave; empty when it can. `moved`: it goes on
    somewhere else. `service`: whose replica it is, which the service replaces elsewhere before it goes."""

    who: str
    stays: str = ""
    moved: bool = False
    service: str = ""


@dataclass(frozen=True, slots=True)
class NodeRollout:
    """Made by `nodes.plan_rollout` while the plan is prepared; read by `decide` (who has to leave), `place`
    (what takes nothing new) and `actions` (what is provisioned).

    `causes`: every node that is to be provisioned, and why; `waits`: those that cannot be, and why not. Nodes
    of the first of `waves` are emptied and provisioned by this plan; `closed` ones take nothing new, because
    nothing but their sessions' end is waited for. `clearing`: those of them that only replicas keep from
    their turn, which their services move elsewhere.
    """

    rules: Provisioning
    max_unavailable: int
    causes: Mapping[str, ProvisionReason] = field(default_factory=dict)
    waves: tuple[Wave, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    clearing: frozenset[str] = frozenset()
    occupants: Mapping[str, tuple[Occupant, ...]] = field(default_factory=dict)

    @property
    def wave(self) -> Wave:
        """The nodes that this plan provisions."""
        return self.waves[0] if self.waves else ()

    def moved_sessions(self, node: str) -> tuple[str, ...]:
        """Sessions that go on elsewhere when it is the node's turn."""
        return tuple(sorted({one.who for one in self.occupants.get(node, ()) if one.moved}))

    def nodes_to_empty(self) -> Mapping[str, str]:
        """Nodes that sessions leave for this plan, and what they have become."""
        return {name: "to be provisioned" for name in self.wave}

    def cordoned_nodes(self) -> Iterator[tuple[str, str]]:
        """Nodes that take nothing new for this plan, and why."""
        for name in self.wave:
            yield name, f"to be provisioned: {self.causes[name].why}"
        for name in sorted(self.closed):
            yield name, f"to be provisioned, {self.waits[name]}"
