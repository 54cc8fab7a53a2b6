"""Which requests count as typical or scarce, and what a node is worth to them."""

from __future__ import annotations

import numpy as np

from planner.model.demand import demand_of
from planner.model.request_kinds import RequestKind, count_request_kinds
from planner.model.types import GroupInfo, Snapshot
from planner.nodes.feasibility import Index
from planner.nodes.fragmentation import SCALE, UsableCapacity
from planner.nodes.node_table import MEMORY, MILLI, Ints, MapperCache, NodeTable
from planner.nodes.typical_requests import scarce_kinds, typical_kinds
from tests.planner.support import GIB, machine, node, place, session

ANY: frozenset[str] = frozenset()
SMALL = machine(numa=1, cores=32, gpus=8, memory=256 * GIB)
LARGE = machine(numa=1, cores=64, gpus=8, memory=256 * GIB)


def world(large: int = 1, small: int = 9) -> NodeTable:
    members = [node(f"large{at}", LARGE) for at in range(large)]
    members += [node(f"small{at}", SMALL) for at in range(small)]
    return NodeTable(members, MapperCache())


def kind(cpu: int, devices: int, *, memory: int = GIB, models: frozenset[str] = ANY) -> RequestKind:
    return RequestKind(1000 * cpu, memory, devices, 1000, models)


def test_requests_are_counted_by_kind_and_their_memory_is_averaged() -> None:
    asked = [session("a", cpu=2, gpus=1, memory=2 * GIB), session("b", cpu=2, gpus=1, memory=4 * GIB)]
    asked += [session("c", cpu=1, shares=500), session("d", cpu=9)]
    group = GroupInfo("main")
    kinds = count_request_kinds((demand_of(one.kernels[0], one, group), one.gpu_models) for one in asked)
    assert list(kinds.items()) == [(kind(2, 1, memory=3 * GIB), 2), (RequestKind(1000, GIB, 1, 500, ANY), 1)]


def test_typical_are_the_most_frequent_up_to_95_percent() -> None:
    kinds = {kind(1, 1): 90, kind(2, 1): 6, kind(3, 1): 4}
    assert typical_kinds(kinds) == {kind(1, 1): 90, kind(2, 1): 6}


def test_scarce_is_what_is_rare_and_only_few_nodes_can_serve() -> None:
    kinds = {kind(1, 1): 96, kind(48, 8): 2, kind(16, 8): 1, kind(99, 8): 1}
    assert scarce_kinds(world(), kinds) == {kind(48, 8): 1.0}, (
        "an eighth of the demand for a tenth of the GPUs"
    )
    assert scarce_kinds(world(large=10, small=0), kinds) == {}
    frequent = {kind(48, 8): 96, kind(1, 1): 4}
    assert scarce_kinds(world(), frequent) == {}


def test_how_scarce_follows_from_what_is_asked_of_those_nodes() -> None:
    kinds = {kind(1, 1): 1900, kind(48, 8): 1}
    (pressure,) = scarce_kinds(world(), kinds).values()
    assert abs(pressure - (8 / 1908) / (1 / 10)) < 1e-12


def test_what_no_node_can_serve_is_not_scarce() -> None:
    other = kind(1, 1, models=frozenset({"other"}))
    roomy = kind(1, 1, memory=300 * GIB)
    assert scarce_kinds(world(), {kind(1, 1): 98, other: 1, roomy: 1}) == {}


def test_a_node_is_worth_less_without_the_memory_that_requests_take() -> None:
    one, kinds = world(1, 0), {kind(1, 1, memory=32 * GIB): 1}
    nodes, cpu, memory, devices = _empty(one, 0)
    full, little = (
        UsableCapacity(one, kinds).of(nodes, cpu, left, devices)[0] for left in (memory, memory // 16)
    )
    assert full - little >= 8000 * SCALE, "none of the eight GPUs is of use"


def test_small_requests_stay_off_the_only_node_for_the_largest() -> None:
    members = (node("large", LARGE), *(node(f"small{at}", SMALL) for at in range(3)))
    small = [session(f"s{at:02}", cpu=4, gpus=1, enqueued=at) for at in range(24)]
    largest = session("t", cpu=60, gpus=8, enqueued=99)
    group = GroupInfo("main", selection="least-fragmentation")
    outcome = place(Snapshot(members, (group,), pending=(*small, largest)))
    assert not outcome.waits
    assert {one.kernels[0].node for one in outcome.placements if one.session == "t"} == {"large"}


def _empty(world: NodeTable, at: int) -> tuple[Index, Ints, Ints, Ints]:
    nodes: Index = np.array([at], dtype=np.intp)
    return nodes, world.totals[MILLI, nodes], world.totals[MEMORY, nodes], world.devices[:, nodes]
