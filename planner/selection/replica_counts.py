"""How replicas of one service lie on a group's nodes, and which nodes the next one prefers.

What is preferred comes before the strategy's score: nodes with the fewest replicas of the same generation,
then with the fewest of any; to pack, those with the most. Only nodes with room are compared, so nobody ever
waits for a better one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from planner.model import slots
from planner.model.service_replica import ServiceReplica
from planner.model.types import Placement, Running
from planner.nodes.node_table import Ints, NodeTable

_NO_REPLICAS: Mapping[int, int] = {}


class NodePreference(NamedTuple):
    """`ranks`: one per node, the lowest is preferred. `same` and `every`: node → replicas of the same
    generation, and of any."""

    replica: ServiceReplica
    ranks: Ints
    same: Mapping[int, int]
    every: Mapping[int, int]

    def among(self, values: Ints, no_fit: int) -> Ints:
        """The scores, `no_fit` for nodes that are less preferred than another one that fits."""
        fitting = self.ranks[values != no_fit]
        if not len(fitting):
            return values
        preferred: Ints = np.where(self.ranks == fitting.min(), values, no_fit)
        return preferred

    def describe(self, nodes: Iterable[int]) -> str:
        """How many replicas there were on the chosen nodes before: on the fullest of several."""
        most = max(self.every.get(at, 0) for at in nodes)
        count = slots.plural(most, "other replica") if most else "no other replica"
        return f"{self.replica.placement}: {count} of {self.replica.service} there"

    def why_second(self, first: int, second: int) -> str:
        """Why the second node is less preferred; empty where it is not."""
        if self.ranks[first] == self.ranks[second]:
            return ""
        count = self.every.get(second, 0)
        if count != self.every.get(first, 0):
            return f"{slots.plural(count, 'replica')} of {self.replica.service} there"
        return f"{slots.plural(self.same.get(second, 0), 'replica')} of this generation there"


class ReplicaCounts:
    """Replicas by service, generation and node (index), of what runs and of what a plan has placed."""

    def __init__(self, table: NodeTable, running: Iterable[Running]) -> None:
        self._table = table
        self._counts: dict[str, dict[str, Counter[int]]] = {}
        for one in running:
            if one.request.replica_of is not None:
                self.add(one.request.replica_of, one.placement)

    def add(self, replica: ServiceReplica, placement: Placement, change: int = 1) -> None:
        """One more, or `change` = -1: one less, on each of its nodes that the table has."""
        counts = self._counts.setdefault(replica.service, {}).setdefault(replica.generation, Counter())
        for name in {kernel.node for kernel in placement.kernels}:
            if (at := self._table.index.get(name)) is not None:
                counts[at] += change

    def preference(self, replica: ServiceReplica) -> NodePreference:
        """What the next replica prefers, as things stand."""
        by_generation = self._counts.get(replica.service, {})
        same = by_generation.get(replica.generation, _NO_REPLICAS)
        every: Counter[int] = Counter()
        for counts in by_generation.values():
            every.update(counts)
        ranks: Ints = np.zeros(len(self._table.nodes), dtype=np.int64)
        beyond = max(every.values(), default=0) + 1
        for at, count in every.items():
            ranks[at] = same.get(at, 0) * beyond + count
        return NodePreference(replica, ranks if replica.placement == "spread" else -ranks, dict(same), every)
