"""Spread load: the node that would have most left."""

from __future__ import annotations

from planner.model.types import GroupInfo
from planner.nodes.feasibility import Index
from planner.nodes.node_arrays import Ints, World
from planner.selection.base import SCORE_LIMIT, Need
from planner.selection.leftover import leftover, words


class Dispersed:
    rotates = False

    def __init__(self, group: GroupInfo, world: World) -> None:
        del group, world

    def scores(self, world: World, need: Need, nodes: Index) -> Ints:
        return SCORE_LIMIT - 1 - leftover(world, need, nodes)

    def describe(self, score: int) -> str:
        return words(SCORE_LIMIT - 1 - score)
