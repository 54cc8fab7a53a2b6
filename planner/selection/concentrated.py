"""Fill nodes up: the node that would have least left."""

from __future__ import annotations

from planner.model.types import GroupInfo
from planner.nodes.feasibility import Index
from planner.nodes.node_table import Ints, NodeTable
from planner.selection.base import Need
from planner.selection.leftover import describe_leftover, leftover


class Concentrated:
    rotates = False
    by_state = True

    def __init__(self, group: GroupInfo, table: NodeTable) -> None:
        del group, table

    def scores(self, table: NodeTable, need: Need, nodes: Index) -> Ints:
        return leftover(table, need, nodes)

    def describe(self, score: int) -> str:
        return describe_leftover(score)
