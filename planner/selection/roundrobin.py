"""Take turns: the next node, in order, after the one that was given the last session.

The turn starts after the node of the session that started last among those that run, so that one plan
continues the one before.
"""

from __future__ import annotations

import numpy as np

from planner.model.types import GroupInfo
from planner.nodes.feasibility import Index
from planner.nodes.node_table import Ints, NodeTable
from planner.selection.base import Need


class RoundRobin:
    rotates = True
    by_state = True

    def __init__(self, group: GroupInfo, table: NodeTable) -> None:
        del group, table

    def scores(self, table: NodeTable, need: Need, nodes: Index) -> Ints:
        return np.zeros(len(nodes), dtype=np.int64)

    def describe(self, score: int) -> str:
        return "next in turn"
