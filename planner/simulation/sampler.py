"""Reading the node tables of a simulated cluster: what is allocated, and how the free devices lie."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from planner.model import slots
from planner.nodes.feasibility import Index
from planner.nodes.metrics import device_slot
from planner.nodes.node_table import MEMORY, MILLI, NodeTable
from planner.simulation.values import Samples


class ClusterSampler:
    """What the active nodes of some tables hold, over all of them."""

    def __init__(self, tables: Iterable[NodeTable]) -> None:
        self._samplers = [_TableSampler(table) for table in tables if table.nodes]
        self.capacity = {
            slots.CPU: sum(part.cpu for part in self._samplers),
            slots.MEMORY: sum(part.memory for part in self._samplers),
            "devices": sum(part.devices for part in self._samplers),
        }

    def read(self, samples: Samples, now: float, running: int, waiting: int) -> None:
        """Add a sample."""
        found = [part.read() for part in self._samplers]
        samples.at.append(now)
        samples.devices.append(self.capacity["devices"] - sum(one[0] for one in found))
        samples.cpu.append(self.capacity[slots.CPU] - sum(one[1] for one in found))
        samples.memory.append(self.capacity[slots.MEMORY] - sum(one[2] for one in found))
        samples.fragmented.append(sum(one[3] for one in found))
        samples.largest.append(max((one[4] for one in found), default=0))
        samples.running.append(running)
        samples.waiting.append(waiting)


class _TableSampler:
    """One table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._active: Index = np.array(
            [at for at, node in enumerate(table.nodes) if node.state == "active"], dtype=np.intp
        )
        slot = device_slot(table)
        self._feature = table.device_rows[slot] if slot else None
        capacity = table.capacity[:, self._active]
        self.cpu, self.memory = int(capacity[MILLI].sum()), int(capacity[MEMORY].sum())
        self._most = capacity[self._feature.milli] if self._feature else capacity[MILLI]
        self.devices = int(self._most.sum()) if self._feature else 0

    def read(self) -> tuple[int, int, int, int, int]:
        """Free device milli, CPU milli and bytes; free device milli on partly taken nodes; the most whole
        devices free on one node."""
        totals = self._table.totals[:, self._active]
        cpu, memory = int(totals[MILLI].sum()), int(totals[MEMORY].sum())
        if self._feature is None:
            return 0, cpu, memory, 0, 0
        free = totals[self._feature.milli]
        beside = int(free[free < self._most].sum())
        return int(free.sum()), cpu, memory, beside, int(totals[self._feature.whole].max(initial=0))
