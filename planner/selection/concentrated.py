"""Fill nodes up: the node that would have least left."""

from __future__ import annotations

from planner.model.types import GroupInfo
from planner.nodes.feasibility import Index
from planner.nodes.node_arrays import Ints, World
from planner.selection.base import Need
from planner.selection.leftover import leftover, words


class Concentrated:
    rotates = False

    def __init__(self, group: GroupInfo, world: World) -> None:
        del group, world

    def scores(self, world: World, need: Need, nodes: Index) -> Ints:
        return leftover(world, need, nodes)

    def describe(self, score: int) -> str:
        return words(score)
