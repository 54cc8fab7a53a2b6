"""Spread load: the node that would have most left."""

from __future__ import annotations

from planner.model.types import GroupInfo
from planner.nodes.feasibility import Index
from planner.nodes.node_table import Ints, NodeTable
from planner.selection.base import SCORE_LIMIT, Need
from planner.selection.leftover import describe_leftover, leftover


class Dispersed:
    rotates = False
    by_state = True

    def __init__(self, group: GroupInfo, table: NodeTable) -> None:
        del group, table

    def scores(self, table: NodeTable, need: Need, nodes: Index) -> Ints:
        return SCORE_LIMIT - 1 - leftover(table, need, nodes)

    def describe(self, score: int) -> str:
        return describe_leftover(SCORE_LIMIT - 1 - score)
