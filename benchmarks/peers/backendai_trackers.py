"""Backend.AI's manager 26.9: the agent selector works on trackers, one for each agent.

Called as by its provisioner: the pending sessions in FIFO order; for each a plan of its placement, then
`compute_placements`, which commits what it places into the trackers, all kernels or none.
"""

from __future__ import annotations

import asyncio
import uuid
from decimal import Decimal
from typing import Any

from ai.backend.common.types import (  # type: ignore[import-not-found]
    AgentId,
    AgentSelectionStrategy,
    ClusterMode,
    PreemptionOrder,
)
from ai.backend.manager.data.session.options import (  # type: ignore[import-not-found]
    AgentSelectionPolicy,
)
from ai.backend.manager.sokovan.scheduler.provisioner.selectors.pool import (  # type: ignore[import-not-found]
    create_agent_selector,
)
from ai.backend.manager.sokovan.scheduler.provisioner.selectors.selector import (  # type: ignore[import-not-found]
    AgentSelectionCriteria,
    PlacementPlan,
)
from ai.backend.manager.sokovan.scheduler.provisioner.selectors.tracker import (  # type: ignore[import-not-found]
    build_agent_trackers,
)
from ai.backend.manager.sokovan.scheduler.provisioner.selectors.types import (  # type: ignore[import-not-found]
    ResourceRequirements,
)
from ai.backend.manager.views.sokovan.agent import (  # type: ignore[import-not-found]
    AgentLimit,
    AgentMeta,
    AgentResource,
    ResourceGroupResource,
    SlotResource,
)
from ai.backend.manager.views.sokovan.workload import ResourceRequest  # type: ignore[import-not-found]

ARCHITECTURE = "x86_64"
GROUP = uuid.UUID(int=1)
PRIORITY = ("cuda", "rocm", "tpu", "cpu", "mem")
"""The manager's default for `agent-selection-resource-priority`."""
NO_LIMIT = AgentLimit(max_container_count=None)

Slots = dict[str, int]


def agent(at: int, node: Slots) -> Any:
    zero = Decimal(0)
    slots = {name: SlotResource(Decimal(amount), zero, zero) for name, amount in node.items()}
    return AgentMeta(
        id=AgentId(f"i-{at:05}"),
        addr=f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}:6001",
        architecture=ARCHITECTURE,
        resources=AgentResource(slots),
        container_count=0,
    )


def requirement(slots: Slots) -> Any:
    asked = ResourceRequest(slots={name: Decimal(amount) for name, amount in slots.items()})
    return ResourceRequirements(requested_slots=asked, required_architecture=ARCHITECTURE, container_count=1)


class Manager:
    """A resource group's agents and pending sessions (the requirements of each session's kernels)."""

    def __init__(self, workload: dict[str, Any]) -> None:
        agents = [agent(at, workload["node"]) for at in range(workload["nodes"])]
        self.trackers = build_agent_trackers(ResourceGroupResource(agents=agents))
        self.pending = [[requirement(slots) for slots in kernels] for kernels in workload["sessions"]]
        self.strategy = AgentSelectionStrategy(workload["selection"])
        self.selector = create_agent_selector(list(PRIORITY))

    def decide_all(self) -> int:
        """How many of the pending sessions got their agents."""
        return asyncio.run(self._decide_all())

    async def _decide_all(self) -> int:
        return sum([await self._decide(at, kernels) for at, kernels in enumerate(self.pending)])

    async def _decide(self, at: int, kernels: list[Any]) -> bool:
        mode = ClusterMode.MULTI_NODE if len(kernels) > 1 else ClusterMode.SINGLE_NODE
        criteria = AgentSelectionCriteria(
            session_id=uuid.UUID(int=at + 1),
            resource_group_id=GROUP,
            requirements=PlacementPlan.from_items(kernels, mode).requirements(),
            agent_selection_policy=AgentSelectionPolicy.PREFERRED,
            designated_agent_ids=None,
            job_priority=0,
            victim_candidates=None,
            session_group=None,
        )
        computation = await self.selector.compute_placements(
            self.strategy, self.trackers, criteria, NO_LIMIT, PreemptionOrder.OLDEST
        )
        return not computation.failures
