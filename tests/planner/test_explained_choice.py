"""Why the second best node is second: said, too, where both look alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.model.types import GroupInfo, NodeInfo, Snapshot
from planner.nodes.feasibility import Index
from planner.nodes.node_table import Ints, NodeTable
from planner.policies import Policies
from planner.selection.base import Need
from tests.planner.support import BUILT_IN, GIB, machine, node, place, session

CPU = machine(numa=1, cores=8, gpus=0, memory=16 * GIB)
GPU = machine(numa=1, cores=8, gpus=2, memory=16 * GIB)


class Vague:
    """A plugin's strategy whose words hide what decides."""

    def __init__(self, group: GroupInfo, world: NodeTable) -> None:
        del group
        self.count = len(world.nodes)

    def scores(self, world: NodeTable, need: Need, nodes: Index) -> Ints:
        scores: Ints = (self.count - nodes).astype(np.int64)
        return scores

    def describe(self, score: int) -> str:
        return "quite good"


def second(selection: str, *nodes: NodeInfo, policies: Policies = BUILT_IN, **wants: int) -> tuple[str, str]:
    """The chosen node, and what is said of the second best."""
    pending = (session("s", **{"cpu": 1, **wants}),)
    (placed,) = place(
        Snapshot(nodes, (GroupInfo("main", selection=selection),), pending=pending), policies
    ).placements
    assert placed.choice is not None
    return placed.kernels[0].node, placed.choice.runner_up


def test_equal_nodes_go_by_their_order() -> None:
    found = second("concentrated", node("a", CPU), node("b", CPU))
    assert found == ("a", "b (equal, later in the order of nodes)")


def test_nodes_that_differ_are_told_by_what_is_left() -> None:
    small = machine(numa=1, cores=4, gpus=0, memory=16 * GIB)
    found = second("concentrated", node("a", CPU), node("b", small))
    assert found == ("b", "a (leaves 7 cores, 15 GiB)")


def test_devices_that_nobody_asks_for_are_kept_free() -> None:
    chosen, said = second("dispersed", node("a", GPU), node("b", CPU))
    assert (chosen, said) == ("b", "a (leaves 2 devices, 7 cores, 15 GiB; its devices are kept free)")


def test_turns() -> None:
    assert second("roundrobin", node("a", CPU), node("b", CPU)) == ("a", "b (later in turn)")


def test_what_is_as_good_as_equal_goes_by_a_fixed_order() -> None:
    _, said = second("least-fragmentation", node("a", GPU), node("b", GPU), gpus=1)
    assert said.endswith("(as good as equal, later in a fixed order)")


def test_words_that_hide_the_difference_are_followed_by_the_scores() -> None:
    policies = replace(BUILT_IN, selection={"vague": Vague})
    found = second("vague", node("a", CPU), node("b", CPU), policies=policies)
    assert found == ("b", "a (scores 2 against 1)")


def test_a_rest_below_a_gibibyte_is_not_nothing() -> None:
    small = machine(numa=1, cores=8, gpus=0, memory=2 * GIB)
    wants = session("s", cpu=1, memory=3 * GIB // 2)
    (placed,) = place(Snapshot((node("a", small),), (GroupInfo("main"),), pending=(wants,))).placements
    assert placed.choice is not None and placed.choice.score == "leaves 7 cores, under 1 GiB"
