"""Spread load: the node that would have most left."""

from __future__ import annotations

from planner.feasible import Index
from planner.selection.base import SCORE_LIMIT, Need
from planner.selection.leftover import leftover, words
from planner.snapshot import Ints, World
from planner.types import GroupInfo


class Dispersed:
    rotates = False

    def __init__(self, group: GroupInfo, world: World) -> None:
        del group, world

    def scores(self, world: World, need: Need, nodes: Index) -> Ints:
        return SCORE_LIMIT - 1 - leftover(world, need, nodes)

    def describe(self, score: int) -> str:
        return words(SCORE_LIMIT - 1 - score)
