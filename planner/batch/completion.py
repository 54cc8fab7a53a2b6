"""Chosen fills onto nodes: nobody twice, those who must be placed first, and what is left over filled in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.batch.greedy import Bins, insert_greedily, largest_first
from planner.batch.repair import repair_required
from planner.batch.time_limit import TimeLimit
from planner.batch.values import Fill, Fills, NodeClass, Packing, RequestClass


def complete_packing(
    nodes: Sequence[NodeClass],
    requests: Sequence[RequestClass],
    fills: Fills,
    needs: tuple[float, float],
    limit: TimeLimit,
) -> Packing:
    """The packing that begins with these fills. `needs`: milli-cores and bytes that go with one GPU."""
    found = _Completion(nodes, requests, needs)
    found.assign_fills(fills)
    found.place_required()
    found.repair(limit)
    found.place_rest()
    return found.packing()


class _Completion:
    def __init__(
        self, nodes: Sequence[NodeClass], requests: Sequence[RequestClass], needs: tuple[float, float]
    ) -> None:
        self._nodes, self._requests, self._needs = nodes, requests, needs
        self._bins = Bins(nodes, *needs)
        self._order = largest_first(requests)
        self._placed = [0] * len(requests)

    def assign_fills(self, fills: Fills) -> None:
        """Fills onto nodes of their class, without more of any request than there are."""
        kinds = range(len(self._nodes))
        free = {kind: list(np.flatnonzero(self._bins.kind == kind)) for kind in kinds}
        for kind, fill, count in fills:
            for _ in range(count):
                self._preload_node(int(free[kind].pop()), fill)

    def place_required(self) -> None:
        """Those that must be placed, where there is room for them."""
        short = [(at, self._requests[at].required - self._placed[at]) for at in self._order]
        self._insert([(at, count) for at, count in short if count > 0])

    def repair(self, limit: TimeLimit) -> None:
        """Make room for those that must be placed and are not."""
        repair_required(self._bins, self._nodes, self._requests, self._placed, limit)

    def place_rest(self) -> None:
        left = [(at, self._requests[at].count - self._placed[at]) for at in self._order]
        self._insert([(at, count) for at, count in left if count > 0])

    def packing(self) -> Packing:
        counted: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        for kind, fill in zip(self._bins.kind, self._bins.fills, strict=True):
            key = (int(kind), tuple(sorted(fill.items())))
            counted[key] = counted.get(key, 0) + 1
        fills = tuple((kind, dict(fill), count) for (kind, fill), count in counted.items())
        return Packing(fills, tuple(self._placed))

    def _preload_node(self, at: int, fill: Fill) -> None:
        left = {which: self._requests[which].count - self._placed[which] for which in fill}
        taken = {which: min(number, left[which]) for which, number in fill.items()}
        for which, number in self._bins.preload(at, taken, self._requests).items():
            self._placed[which] += number

    def _insert(self, left: Sequence[tuple[int, int]]) -> None:
        for which, number in enumerate(insert_greedily(self._bins, self._requests, left)):
            self._placed[which] += number
