"""The seam of node selection: a strategy scores nodes that can hold a need; the lowest score wins, ties go to
the first node.

A strategy is an object with `scores` and `describe`; plugins register theirs under the entry-point group
`bai.selection`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from planner.model.demand import Demand
from planner.model.types import GroupInfo
from planner.nodes.feasibility import Index
from planner.nodes.node_table import Ints, NodeTable

SCORE_LIMIT = 1 << 58
"""Scores stay below: the bits above hold what comes before any strategy."""


class NodeFilter(NamedTuple):
    """What a session says about its nodes, hashable."""

    designated: frozenset[str] = frozenset()
    gpu_models: frozenset[str] = frozenset()
    selector: tuple[tuple[str, str], ...] = ()
    architectures: frozenset[str] = frozenset()


class Need(NamedTuple):
    """What goes onto one node together: the demands of one or more kernels, their sum, and the filter."""

    demands: tuple[Demand, ...]
    sum: Demand
    filter: NodeFilter


class Selection(Protocol):
    """A strategy. `scores` returns int64 in [0, SCORE_LIMIT), one per entry of `nodes`, for placing `need`
    there.

    A score may depend on the node's own state only: it is kept until the node changes. Optional attributes:
    `rotates` (True: ties go to the next node in turn rather than to the first), `tolerance` and `order`
    (scores within `tolerance` of the best are ties, won by the node with the least `order[node]`), `by_state`
    (True: nodes of one hardware in equal states score the same, so that each state is scored once).
    """

    def scores(self, table: NodeTable, need: Need, nodes: Index) -> Ints: ...

    def describe(self, score: int) -> str:
        """The score in words, for the explanation of a choice."""
        ...


class SelectionFactory(Protocol):
    """Makes a strategy for one group and one plan."""

    def __call__(self, group: GroupInfo, table: NodeTable) -> Selection: ...
