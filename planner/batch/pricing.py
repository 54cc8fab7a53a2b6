"""The best fill of one node at given prices: cutting stock's pricing problem, by knapsack tables.

The tables know neither memory nor how many of a class there are. Where their answer asks for more than there
is, what was too much costs more and the tables are computed again (subgradient steps; Held and Karp, 1971), a
few times; what fits of each answer is a fill, and the best of them counts. Where there is little to choose
from, a small program finds the exact answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.batch.fill_program import exact_fill
from planner.batch.fill_tables import FillTables, Item
from planner.batch.values import DEVICE, Fill, NodeClass, RequestClass

_SCALE = 1000
_TRIES = 4
_DEARER = 0.8
"""What is left of the gain of a class of which too many were taken."""
_MOST_CLASSES = 512
"""Classes that tables are made for: their work goes with the number, and finding the dominated ones with its
square."""
_FEW_CLASSES, _FEW_SIZES = 16, 5
"""Classes, and sizes among them, that a program decides on in no time."""
_PROGRAM, _ENTRIES_PER_SECOND = 1_000_000, 200_000_000
"""Entries of tables that are as much work as making a program, and as one of its deterministic seconds."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Pricing:
    """Fills for these requests. `work`: done so far, in entries of tables."""

    def __init__(self, requests: Sequence[RequestClass]) -> None:
        self.work = 0
        self._requests = requests
        self._sizes = np.array([(one.cpu, one.memory, one.gpu_milli) for one in requests], np.float64)
        self._sizes = self._sizes.reshape(len(requests), 3)
        self._counts = np.array([one.count for one in requests], np.int64)

    def best_fill(self, node: NodeClass, gain: Floats) -> Fill:
        """The fill of one `node` with the greatest sum of `gain` that was found; empty if none gains."""
        most = np.array([one.most_on(node) for one in self._requests], np.int64)
        offered = self._undominated(node, gain, most)
        if len(offered) <= _FEW_CLASSES and len({self._requests[at].milli for at in offered}) <= _FEW_SIZES:
            fill, seconds = exact_fill(node, self._requests, {at: round(gain[at] * _SCALE) for at in offered})
            self.work += _PROGRAM + int(seconds * _ENTRIES_PER_SECOND)
            return fill
        return self._fill_by_tables(node, gain, most)

    def _fill_by_tables(self, node: NodeClass, gain: Floats, most: Counts) -> Fill:
        best: Fill = {}
        worth, asked, dear = 0.0, gain.copy(), 0.0
        for _ in range(_TRIES):
            groups = self._ask_tables(node, asked - dear * self._sizes[:, 1], most)
            taken = np.bincount([which for group in groups for which in group], minlength=len(gain))
            fill = self._fill_node(node, groups, gain, most)
            found = sum(gain[which] * count for which, count in fill.items())
            if found > worth:
                best, worth = fill, found
            scarce, memory = taken > self._counts, float(taken @ self._sizes[:, 1])
            if not scarce.any() and memory <= node.memory:
                break
            asked[scarce] *= _DEARER
            if memory > node.memory:
                dear += (memory / max(node.memory, 1) - 1) * float(taken @ gain) / memory
        return best

    def _ask_tables(self, node: NodeClass, gain: Floats, most: Counts) -> list[tuple[int, ...]]:
        items = [self._item(which, gain) for which in self._undominated(node, gain, most)]
        tables = FillTables(node.cpu, node.gpus, items)
        self.work += tables.entries
        return list(tables.best())

    def _item(self, which: int, gain: Floats) -> Item:
        one = self._requests[which]
        return Item(which, one.cpu, one.gpus, one.milli, round(gain[which] * _SCALE))

    def _undominated(self, node: NodeClass, gain: Floats, most: Counts) -> list[int]:
        """Classes that can be in a best fill: none that takes no less, gains no more and never runs out."""
        offered = np.sort(self._by_density(node, gain, most))
        sizes, worth = self._sizes[offered], gain[offered]
        endless = self._counts[offered] >= most[offered]
        smaller = (sizes[:, None, :] <= sizes[None, :, :]).all(axis=2)
        first = np.arange(len(offered))[:, None] < np.arange(len(offered))[None, :]
        better = (worth[:, None] > worth[None, :]) | ((worth[:, None] == worth[None, :]) & first)
        return [int(at) for at in offered[~(smaller & better & endless[:, None]).any(axis=0)]]

    def _fill_node(
        self, node: NodeClass, groups: Iterable[Sequence[int]], gain: Floats, most: Counts
    ) -> Fill:
        """As much of the groups as there is and as memory allows, and then what still fits, the most
        valuable first."""
        filled = _FilledNode(node, self._requests)
        for group in sorted(groups, key=lambda group: -sum(gain[which] for which in group)):
            filled.add_together(group)
        for which in self._by_density(node, gain, most).tolist():
            while filled.add_anywhere(which):
                pass
        return filled.fill

    def _by_density(self, node: NodeClass, gain: Floats, most: Counts) -> Counts:
        """Classes that gain, by gain per part of a node that they take: as many as tables are made for."""
        whole = np.array([node.cpu, node.memory, node.gpus * DEVICE], np.float64)
        density = gain / ((self._sizes / np.maximum(whole, 1)).sum(axis=1) + 1e-9)
        offered = np.flatnonzero((most > 0) & (np.rint(gain * _SCALE) > 0))
        return offered[np.argsort(-density[offered], kind="stable")][:_MOST_CLASSES]


class _FilledNode:
    """One node and what has been put on it, device by device."""

    def __init__(self, node: NodeClass, requests: Sequence[RequestClass]) -> None:
        self.fill: dict[int, int] = {}
        self._requests = requests
        self._cpu, self._memory, self._idle = node.cpu, node.memory, node.gpus
        self._shared: list[int] = []
        """Milli that are left of each device that is shared."""

    def add_together(self, group: Sequence[int]) -> None:
        """One request alone, or parts that share a new device."""
        if len(group) == 1 and not self._requests[group[0]].part:
            self.add_anywhere(group[0])
        elif group and self._idle:
            self._idle -= 1
            self._shared.append(DEVICE)
            for which in group:
                self._add_part(which, len(self._shared) - 1)

    def add_anywhere(self, which: int) -> bool:
        """On the shared device that is left with least, or on an idle one."""
        one = self._requests[which]
        if one.part:
            fitting = [(left, at) for at, left in enumerate(self._shared) if left >= one.milli]
            if not fitting and self._idle and self._takes(which):
                self._idle -= 1
                self._shared.append(DEVICE)
                fitting = [(DEVICE, len(self._shared) - 1)]
            return bool(fitting) and self._add_part(which, min(fitting)[1])
        if one.gpus > self._idle or not self._takes(which):
            return False
        self._idle -= one.gpus
        self._count(which)
        return True

    def _add_part(self, which: int, device: int) -> bool:
        if not self._takes(which):
            return False
        self._shared[device] -= self._requests[which].milli
        self._count(which)
        return True

    def _takes(self, which: int) -> bool:
        one = self._requests[which]
        return one.cpu <= self._cpu and one.memory <= self._memory and self.fill.get(which, 0) < one.count

    def _count(self, which: int) -> None:
        self._cpu -= self._requests[which].cpu
        self._memory -= self._requests[which].memory
        self.fill[which] = self.fill.get(which, 0) + 1
