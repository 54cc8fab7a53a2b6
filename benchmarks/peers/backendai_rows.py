"""Backend.AI's manager up to 23.09: the scheduler works on database rows, which need no database.

Called as in its unit tests: `pick_session`, then `assign_agent_for_session` for one node or
`assign_agent_for_kernel` for each kernel of a gang; then the agent's occupied slots grow. A gang that does
not fit whole gives back what it took.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from ai.backend.common.types import (  # type: ignore[import-not-found]
    AccessKey,
    AgentId,
    AgentSelectionStrategy,
    ClusterMode,
    ResourceSlot,
    SessionTypes,
)
from ai.backend.manager.models.agent import AgentRow  # type: ignore[import-not-found]
from ai.backend.manager.models.kernel import KernelRow  # type: ignore[import-not-found]
from ai.backend.manager.models.scaling_group import ScalingGroupOpts  # type: ignore[import-not-found]
from ai.backend.manager.models.session import SessionRow, SessionStatus  # type: ignore[import-not-found]
from ai.backend.manager.scheduler.fifo import FIFOSlotScheduler  # type: ignore[import-not-found]

ARCHITECTURE = "x86_64"
GROUP = "bench"
PRIORITY = ("cuda", "rocm", "tpu", "cpu", "mem")
"""The manager's default for `agent-selection-resource-priority`."""

Slots = dict[str, int]


def resource_slot(slots: Slots) -> Any:
    return ResourceSlot({name: Decimal(amount) for name, amount in slots.items()})


def agent(at: int, node: Slots) -> Any:
    return AgentRow(
        id=AgentId(f"i-{at:05}"),
        addr=f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}:6001",
        architecture=ARCHITECTURE,
        scaling_group=GROUP,
        available_slots=resource_slot(node),
        occupied_slots=resource_slot(dict.fromkeys(node, 0)),
    )


def session(at: int, kernels: list[Slots], node: Slots) -> Any:
    """Slots that a kernel does not ask for are zero, as the manager fills them in."""
    asked = [resource_slot(dict.fromkeys(node, 0) | slots) for slots in kernels]
    session_id = uuid.UUID(int=at + 1)
    created = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=at)
    return SessionRow(
        id=session_id,
        creation_id=f"c{at:06}",
        name=f"s{at:06}",
        access_key=AccessKey(f"user{at % 50}"),
        session_type=SessionTypes.BATCH,
        status=SessionStatus.PENDING,
        status_data={},
        cluster_mode=ClusterMode.MULTI_NODE if len(kernels) > 1 else ClusterMode.SINGLE_NODE,
        cluster_size=len(kernels),
        scaling_group_name=GROUP,
        domain_name="default",
        requested_slots=sum(asked[1:], asked[0]),
        target_sgroup_names=[],
        created_at=created,
        kernels=[
            KernelRow(
                id=uuid.UUID(int=(at + 1 << 8) + index + 1),
                session_id=session_id,
                cluster_role="main" if index == 0 else "sub",
                cluster_idx=index,
                architecture=ARCHITECTURE,
                requested_slots=slots,
                created_at=created,
            )
            for index, slots in enumerate(asked)
        ],
    )


class Manager:
    """What the manager's dispatcher keeps between decisions."""

    def __init__(self, workload: dict[str, Any]) -> None:
        self.agents = [agent(at, workload["node"]) for at in range(workload["nodes"])]
        self.by_id = {one.id: one for one in self.agents}
        self.pending = [
            session(at, kernels, workload["node"]) for at, kernels in enumerate(workload["sessions"])
        ]
        self.capacity = sum((one.available_slots for one in self.agents), ResourceSlot())
        self.strategy = AgentSelectionStrategy(workload["selection"])
        self.scheduler = FIFOSlotScheduler(ScalingGroupOpts(agent_selection_strategy=self.strategy), {})
        self.existing: list[Any] = []

    def decide_all(self) -> int:
        """How many of the pending sessions got their agents."""
        return sum(self.decide() for _ in range(len(self.pending)))

    def decide(self) -> bool:
        """Takes the next session from the queue; whether it got its agents."""
        picked = self.scheduler.pick_session(self.capacity, self.pending, self.existing)
        at = next(at for at, one in enumerate(self.pending) if one.id == picked)
        chosen = self.pending.pop(at)
        if chosen.cluster_mode == ClusterMode.SINGLE_NODE:
            placed = self._single(chosen)
        else:
            placed = self._gang(chosen)
        if placed:
            self.existing.append(chosen)
        return placed

    def _single(self, chosen: Any) -> bool:
        found = self.scheduler.assign_agent_for_session(self.agents, chosen, self.strategy, list(PRIORITY))
        if found is None:
            return False
        self.by_id[found].occupied_slots += chosen.requested_slots
        return True

    def _gang(self, chosen: Any) -> bool:
        taken: list[tuple[Any, Any]] = []
        for kernel in chosen.kernels:
            found = self.scheduler.assign_agent_for_kernel(self.agents, kernel, self.strategy, list(PRIORITY))
            if found is None:
                for one, slots in taken:
                    one.occupied_slots -= slots
                return False
            self.by_id[found].occupied_slots += kernel.requested_slots
            taken.append((self.by_id[found], kernel.requested_slots))
        return True
