"""The world as arrays: rolling back restores it exactly, recorded kernels take what they say, and scores
follow changes.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings

from planner.model.node_state import hold_kernel
from planner.model.slots import bytes_text
from planner.model.types import GroupInfo, KernelRequest, Running, SessionRequest, Snapshot
from planner.nodes.node_table import MapperCache, NodeTable
from planner.selection.gang import ShapeCache, try_place
from planner.selection.node_scorer import NodeScorer
from schemas.hardware.model import Gpu, Hardware, NumaNode
from tests.planner.support import BUILT_IN, GIB, machine, node, place, session
from tests.planner.test_place_properties import snapshots


@settings(max_examples=25, deadline=None)
@given(snapshots())
def test_what_is_remembered_of_a_kernel_is_what_it_holds(snapshot: Snapshot) -> None:
    """In whatever order kernels come onto a node, and again."""
    world = _world(snapshot)
    placed = place(snapshot).placements
    for kernels in ([kernel for one in placed for kernel in one.kernels],) * 2:
        for order in (kernels, kernels[::-1]):
            states = list(world.empty_states)
            for kernel in order:
                at = world.index[kernel.node]
                remembered = hold_kernel(world.topologies[at], states[at], kernel)
                anew = hold_kernel(world.topologies[at], states[at], dataclasses.replace(kernel))
                assert remembered == anew
                states[at] = remembered[0]


def _world(snapshot: Snapshot) -> NodeTable:
    return NodeTable(snapshot.nodes, MapperCache())


@settings(max_examples=25, deadline=None)
@given(snapshots())
def test_rolling_back_restores_every_array_and_state(snapshot: Snapshot) -> None:
    world = _world(snapshot)
    group = snapshot.groups[0]
    chooser = NodeScorer(world, "x", BUILT_IN.selection["concentrated"](group, world))
    shapes = ShapeCache(group)
    half = len(snapshot.pending) // 2
    for one in snapshot.pending[:half]:
        try_place(chooser, one, shapes.of(one))
    mark = world.checkpoint()
    before = (list(world.states), world.totals.copy(), world.domains.copy(), world.devices.copy())
    world.set_state(0, world.empty_states[0])
    for at, state in enumerate(world.empty_states):
        world.set_state(at, state)
    world.rollback(mark)
    assert world.states == before[0]
    for now, then in zip((world.totals, world.domains, world.devices), before[1:], strict=True):
        assert np.array_equal(now, then)


@settings(max_examples=25, deadline=None)
@given(snapshots())
def test_what_a_plan_placed_is_read_back_as_the_same_state(snapshot: Snapshot) -> None:
    """Placing, recording and restoring gives the state that placing gave."""
    outcome = place(dataclasses.replace(snapshot, running=()))
    requests = {one.id: one for one in snapshot.pending}
    running = tuple(Running(requests[one.session], one) for one in outcome.placements)
    again = place(dataclasses.replace(snapshot, running=running, pending=()))
    assert again.groups[0].before == outcome.groups[0].after
    assert not [text for text in again.warnings if "recorded" in text]


def test_scores_follow_every_change() -> None:
    hardware = machine(numa=2, cores=8, gpus=4)
    world = NodeTable([node(f"n{at}", hardware) for at in range(6)], MapperCache())
    group = GroupInfo("main")
    chooser = NodeScorer(world, "x", BUILT_IN.selection["concentrated"](group, world))
    shapes = ShapeCache(group)
    for at in range(9):
        one = session(f"s{at}", cpu=1 + at % 3, gpus=1 + at % 2)
        assert try_place(chooser, one, shapes.of(one)) is not None
        fresh = NodeScorer(world, "x", BUILT_IN.selection["concentrated"](group, world))
        need = shapes.of(one).needs[0]
        assert np.array_equal(chooser.scores(need), fresh.scores(need))


def test_a_record_of_what_is_not_there_is_a_warning() -> None:
    hardware = machine(numa=1, cores=2, gpus=1)
    one = session("s", cpu=1, gpus=1)
    first = place(Snapshot((node("n", hardware),), (GroupInfo("main"),), pending=(one,)))
    lost = Snapshot(
        (node("other", hardware),), (GroupInfo("main"),), running=(Running(one, first.placements[0]),)
    )
    assert place(lost).warnings == ("s is recorded on node n, which is not in the snapshot",)
    smaller = dataclasses.replace(lost, nodes=(node("n", machine(numa=1, cores=2, gpus=0)),))
    assert place(smaller).warnings == ("s is recorded on n with device GPU-0",)


def test_round_robin_goes_on_where_the_last_plan_stopped() -> None:
    hardware = machine(numa=1, cores=8, gpus=0)
    nodes = tuple(node(f"n{at}", hardware) for at in range(3))
    groups = (GroupInfo("main", selection="roundrobin"),)
    first = place(Snapshot(nodes, groups, pending=(session("a"), session("b", enqueued=1.0))))
    assert [one.kernels[0].node for one in first.placements] == ["n0", "n1"]
    running = tuple(
        Running(session(one.session), one, started=float(at)) for at, one in enumerate(first.placements)
    )
    second = place(Snapshot(nodes, groups, running=running, pending=(session("c"), session("d"))))
    assert [one.kernels[0].node for one in second.placements] == ["n2", "n0"]


def test_a_gang_of_unequal_containers_is_matched_to_the_nodes_that_can_hold_it() -> None:
    """Greedy choice would give the large node to the small container first."""
    large, small = machine(numa=1, cores=8, gpus=0), machine(numa=1, cores=4, gpus=0)
    kernels = (
        KernelRequest("main1", "main", 1, {"cpu": 3000}),
        KernelRequest("sub1", "sub", 1, {"cpu": 8000}),
    )
    gang = SessionRequest("gang", "main", kernels, multi_node=True)
    for selection in ("concentrated", "dispersed"):
        snapshot = Snapshot(
            (node("large", large), node("small", small)),
            (GroupInfo("main", selection=selection),),
            pending=(gang,),
        )
        assert [one.node for one in place(snapshot).placements[0].kernels] == ["small", "large"]


def test_several_containers_on_one_node_are_one_transaction() -> None:
    hardware = machine(numa=1, cores=4, gpus=0, memory=8 * GIB)
    nodes = (node("a", hardware), node("b", hardware))
    fits = session("fits", cpu=2, memory=4 * GIB, kernels=2)
    outcome = place(Snapshot(nodes, (GroupInfo("main"),), pending=(fits, session("not", cpu=2, kernels=3))))
    assert {one.node for one in outcome.placements[0].kernels} == {"a"}
    assert [one.session for one in outcome.waits] == ["not"]
    assert outcome.groups[0].after["cpu"] == 4000


def test_odd_but_valid_input_is_explained_rather_than_raised() -> None:
    bare = machine(numa=1, cores=1, gpus=0, memory=0)
    unknown = Hardware(
        numa_nodes=(NumaNode(id=0, cpus=(0, 1)), NumaNode(id=3, cpus=(2, 3), memory=GIB)),
        gpus=(Gpu(id="a", index=0), Gpu(id="b", index=1, numa_node=9)),
        offline_cpus=(1,),
        siblings=((0, 1), (2, 3)),
    )
    nodes = (node("bare", bare), node("unknown", unknown, reserved_memory=1 << 50))
    pending = (
        dataclasses.replace(session("none"), kernels=()),
        dataclasses.replace(session("gang of none", multi_node=True), kernels=()),
        session("gpus", cpu=2, memory=0, gpus=2),
        session("memory"),
    )
    outcome = place(Snapshot(nodes, (GroupInfo("main"),), pending=pending))
    assert [one.session for one in outcome.placements] == ["gpus"]
    assert outcome.placements[0].kernels[0].cpus == (0, 2, 3)
    assert [wait.reasons[0].code for wait in outcome.waits] == [
        "no-containers",
        "impossible",
        "no-containers",
    ]


def test_bytes_are_told_rounded_down() -> None:
    gib = 1 << 30
    told = {62 * gib: "62 GiB", 62 * gib - 1: "61.99 GiB", 1024 * gib - 1: "1023.99 GiB", 0: "0 B"}
    told |= {3 * gib // 2: "1.5 GiB", gib + gib // 20: "1.04 GiB", 100 * gib: "100 GiB", 1023: "1023 B"}
    assert {amount: bytes_text(amount) for amount in told} == told
