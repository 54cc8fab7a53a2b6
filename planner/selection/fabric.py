"""How a gang lies in the network: on as few leaf switches as its strategy leaves open, and on one rail.

Nodes tell their leaf switch by the label `bai/leaf`; one without it is a leaf of its own. The strategy's
score decides first. Among nodes that it holds equal, those on leaves already used come first, then the
smallest leaf that takes all the rest, else the largest: with equal nodes no other choice needs fewer leaves,
and large leaves stay whole. Last come the rails: kernels on one rail reach each other without the spine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from planner.devices.mapping import Mapping, device_masks
from planner.model.topology import Topology
from planner.nodes.node_table import NodeTable
from planner.selection.base import Need
from planner.selection.need_mapping import map_need

LEAF = "bai/leaf"
_MOST_RAIL_COMPARISONS = 64
"""Equally good nodes whose rails are compared."""

Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]
TieBreak = Callable[[Index], Ints]


class Leaves(NamedTuple):
    """Leaf switches: their names, and the number of each node's leaf."""

    names: tuple[str, ...]
    """Empty for a node that names none."""
    leaf_of: Ints

    def describe(self, nodes: Iterable[int]) -> str:
        """The leaves of a gang's nodes: `on leaf l1`, `over 2 leaves (l1, l2)`."""
        used = sorted({int(self.leaf_of[at]) for at in nodes})
        names = [self.names[leaf] or "one without a name" for leaf in used]
        if len(names) == 1:
            return f"on leaf {names[0]}"
        return f"over {len(names)} leaves ({', '.join(names[:4])}{', ...' if len(names) > 4 else ''})"


class Fabric:
    """The network of one group's nodes."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    @cached_property
    def leaves(self) -> Leaves | None:
        """None where no node names its leaf."""
        given = [node.labels.get(LEAF, "") for node in self._table.nodes]
        if not any(given):
            return None
        names = tuple(sorted({name for name in given if name}))
        number = {name: at for at, name in enumerate(names)}
        lone = [at for at, name in enumerate(given) if not name]
        number_of = [number.get(name, -1) for name in given]
        for extra, at in enumerate(lone):
            number_of[at] = len(names) + extra
        return Leaves((*names, *("" for _ in lone)), np.array(number_of, dtype=np.int64))

    @cached_property
    def has_rails(self) -> bool:
        kinds = {id(topology): topology for topology in self._table.topologies}
        return any(family.rails for topology in kinds.values() for family in topology.families)

    def tie_break(self, need: Need, taken: Collection[int], left: int) -> TieBreak | None:
        """What orders equally good nodes for a gang that has `taken` nodes and needs `left` more; None where
        nothing is known that could."""
        leaves, railed = self.leaves, bool(need.sum.rails)
        if leaves is None and not railed:
            return None

        def order(ties: Index) -> Ints:
            ranks: Ints = np.zeros(len(ties), dtype=np.int64)
            if leaves is not None:
                ranks += _leaf_ranks(leaves, ties, taken, left)
            if railed:
                ranks = ranks * (_MOST_RAIL_COMPARISONS * 64) + self._off_rail_counts(need, ties, ranks)
            return ranks

        return order

    def _off_rail_counts(self, need: Need, ties: Index, ranks: Ints) -> Ints:
        """Devices off the rails, on the first of the nodes that are best so far."""
        off: Ints = np.full(len(ties), 63, dtype=np.int64)
        for at in (ranks == ranks.min()).nonzero()[0][:_MOST_RAIL_COMPARISONS].tolist():
            node = int(ties[at])
            found = map_need(self._table, node, need, self._table.states[node])
            if found is not None:
                topology = self._table.topologies[node]
                off[at] = min(62, sum(off_rails(topology, one, need.sum.rails) for one in found[0]))
        return off


def rails_of(topology: Topology, mappings: Iterable[Mapping]) -> tuple[int, ...]:
    """The rails next to the devices of these mappings, ascending."""
    found: set[int] = set()
    for mapping in mappings:
        for family, mask in device_masks(mapping):
            found |= topology.families[family].rails_of(mask)
    return tuple(sorted(found))


def off_rails(topology: Topology, mapping: Mapping, rails: tuple[int, ...]) -> int:
    """How many of the mapping's devices are next to none of the rails."""
    return sum(topology.families[family].off_rail(mask, rails) for family, mask in device_masks(mapping))


def _leaf_ranks(leaves: Leaves, ties: Index, taken: Collection[int], left: int) -> Ints:
    """0 on leaves already used, then in the order in which leaves should be filled."""
    used = {int(leaves.leaf_of[at]) for at in taken}
    leaf_of = leaves.leaf_of[ties]
    counts = Counter(leaf_of.tolist())
    rank = {leaf: 0 for leaf in counts if leaf in used}
    left -= sum(counts[leaf] for leaf in rank)
    open_ = sorted((counts[leaf], leaf) for leaf in counts if leaf not in rank)
    while open_:
        enough = [one for one in open_ if one[0] >= left]
        chosen = enough[0] if enough else max(open_, key=lambda one: (one[0], -one[1]))
        open_.remove(chosen)
        rank[chosen[1]] = len(rank) + 1
        left -= chosen[0]
        if left <= 0:
            break
    last = len(rank) + 1
    return np.array([rank.get(leaf, last) for leaf in leaf_of.tolist()], dtype=np.int64)
