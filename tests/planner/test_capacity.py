"""How much more fits, checked by placing it; and how the free devices lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.advice.capacity import GroupCapacity, SizeFit, capacities
from planner.model.types import Fractional, GroupInfo, NodeInfo, Running, SessionRequest, Snapshot
from tests.planner.support import GIB, machine, node, place, session

GROUP = GroupInfo("main")
H100 = machine()
BARE = machine(numa=2, cores=16, gpus=0, memory=64 * GIB)
NODES = (node("a", H100), node("b", H100), node("c", H100, state="cordoned"))


def settled(
    nodes: Sequence[NodeInfo], running: Sequence[SessionRequest] = (), group: GroupInfo = GROUP
) -> Snapshot:
    outcome = place(Snapshot(tuple(nodes), (group,), pending=tuple(running)))
    requests = {one.id: one for one in running}
    held = tuple(Running(requests[one.session], one) for one in outcome.placements)
    return Snapshot(tuple(nodes), (group,), running=held)


def capacity(snapshot: Snapshot) -> GroupCapacity:
    (found,) = capacities(snapshot, snapshot, place)
    return found


def sizes(fits: Sequence[SizeFit]) -> dict[str, tuple[int, int | None]]:
    return {one.words: (one.fits, one.one_numa) for one in fits}


def test_an_empty_group_has_whole_blocks_on_its_active_nodes() -> None:
    view = capacity(settled(NODES)).after
    assert (view.active, view.nodes) == (2, 3)
    assert view.capacity["cuda.device"] == view.free["cuda.device"] == 16 and view.used["cpu"] == 0
    assert sizes(view.sizes) == {"1 GPU": (16, 16), "2 GPUs": (8, 8), "4 GPUs": (4, 4), "8 GPUs": (2, 0)}
    assert view.typical == ()
    lies = view.scatter
    assert lies is not None and (lies.free, lies.largest, lies.largest_on) == (16, 8, "a")
    assert (lies.fragments, lies.parts, lies.stranded, lies.nodes_by_free) == (0, 0, 0, {8: 2})


def test_fragments_splits_and_parts_are_counted() -> None:
    running = [
        session("three", gpus=3, cpu=3, designated=frozenset({"a"})),
        session("other", gpus=3, cpu=3, designated=frozenset({"a"})),
        session("part", shares=500, cpu=1, designated=frozenset({"b"})),
        session("wide", gpus=5, cpu=5, designated=frozenset({"b"})),
    ]
    lies = capacity(settled(NODES, running)).after.scatter
    assert lies is not None and lies.nodes_by_free == {2: 2}
    assert (lies.free, lies.fragments, lies.parts, lies.largest, lies.largest_on) == (4, 4, 500, 2, "a")
    assert lies.split == ("wide",)
    fits = sizes(capacity(settled(NODES, running)).after.sizes)
    assert fits["2 GPUs"] == (2, 1), "of the two, the pair on node a lies on two NUMA nodes"


def test_devices_without_cores_beside_them_are_stranded() -> None:
    running = [session("job", gpus=1, cpu=2), session("hog", cpu=12, designated=frozenset({"a"}))]
    found = capacity(settled(NODES[:1], running))
    assert found.least_beside == {"cpu": 2000, "mem": GIB}
    assert found.after.scatter is not None and (found.after.scatter.free, found.after.scatter.stranded) == (
        7,
        6,
    )


def test_a_group_without_devices_counts_cores() -> None:
    view = capacity(settled([node("x", BARE)], [session("s", cpu=10)])).after
    assert view.scatter is None
    assert sizes(view.sizes) == {
        "1 core": (22, 22),
        "2 cores": (11, 11),
        "4 cores": (5, 5),
        "8 cores": (2, 2),
        "16 cores": (1, 1),
        "32 cores": (0, 0),
    }
    assert sizes(view.typical) == {"10 cores, 1 GiB": (2, 1)}


def test_typical_are_the_most_frequent_requests_of_who_runs_and_waits() -> None:
    running = [session(f"r{at}", gpus=1) for at in range(3)]
    snapshot = settled(NODES, running)
    waiting = (*(session(f"w{at}", gpus=8, cpu=8) for at in range(5)), session("rare", cpu=3))
    (found,) = capacities(snapshot, replace(snapshot, pending=waiting), place)
    assert [(one.words, one.asked) for one in found.after.typical] == [
        ("8 GPUs, 8 cores, 1 GiB", 5),
        ("1 GPU, 1 core, 1 GiB", 3),
        ("3 cores, 1 GiB", 1),
    ]
    assert [one.words for one in found.before.typical] == [one.words for one in found.after.typical]


def test_before_and_after_differ_by_the_plan() -> None:
    before = settled(NODES)
    after = settled(NODES, [session("new", gpus=8, cpu=8)])
    (found,) = capacities(before, after, place)
    assert sizes(found.before.sizes)["8 GPUs"] == (2, 0) and sizes(found.after.sizes)["8 GPUs"] == (1, 0)


def test_nothing_active_is_nothing_free() -> None:
    for nodes in ((), (node("c", H100, state="drained"),)):
        view = capacity(settled(nodes)).after
        assert view.sizes == () and not any(view.free.values())


Holders = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(0, 900)), max_size=7)


@settings(max_examples=40, deadline=None)
@given(Holders, st.integers(0, 4), st.integers(1, 7), st.integers(0, 1500), st.sampled_from(["fill", "even"]))
def test_as_many_fit_as_can_be_placed(
    held: list[tuple[int, int, int]], gpus: int, cpu: int, shares: int, spread: str
) -> None:
    group = GroupInfo("main", fractional=Fractional(quantum=100, spread=spread))  # type: ignore[arg-type]
    holders = [session(f"h{at}", gpus=g, cpu=c, shares=s) for at, (g, c, s) in enumerate(held)]
    snapshot = settled(NODES, holders, group)
    copies = tuple(session(f"w{at:02}", gpus=gpus, cpu=cpu, shares=shares) for at in range(40))
    (found,) = capacities(snapshot, replace(snapshot, pending=copies), place)
    wanted = found.after.typical[0]
    assert wanted.asked >= 40
    placed = place(replace(snapshot, pending=copies)).placements
    assert wanted.fits == len(placed)
    if wanted.one_numa is not None:
        assert wanted.one_numa <= wanted.fits


@settings(max_examples=25, deadline=None)
@given(Holders, st.integers(1, 5), st.integers(2, 3))
def test_as_many_gangs_fit_as_any_order_can_place(
    held: list[tuple[int, int, int]], gpus: int, kernels: int
) -> None:
    nodes = (*NODES, node("d", H100), node("e", machine(numa=1, gpus=4)))
    holders = [session(f"h{at}", gpus=g, cpu=c) for at, (g, c, _) in enumerate(held)]
    snapshot = settled(nodes, holders)
    gangs = tuple(
        session(f"w{at:02}", gpus=gpus, cpu=1, kernels=kernels, multi_node=True) for at in range(20)
    )
    (found,) = capacities(snapshot, replace(snapshot, pending=gangs), place)
    wanted = found.after.typical[0]
    spread = replace(GROUP, selection="dispersed")
    best = max(
        len(place(replace(snapshot, groups=(group,), pending=gangs)).placements) for group in (GROUP, spread)
    )
    assert wanted.nodes == kernels and wanted.fits >= best
    assert wanted.fits == _most_gangs([_free(snapshot, gangs[0], one.name) for one in nodes], kernels)


def _free(snapshot: Snapshot, gang: SessionRequest, name: str) -> int:
    """How many containers of the gang one node takes, placed one by one."""
    alone = tuple(
        replace(gang, id=f"x{at:02}", kernels=gang.kernels[:1], designated=frozenset({name}))
        for at in range(20)
    )
    return len(place(replace(snapshot, pending=alone)).placements)


def _most_gangs(counts: list[int], size: int) -> int:
    """By taking from the nodes with the most left, which is optimal."""
    left, gangs = np.array(counts), 0
    while True:
        order = np.argsort(-left, kind="stable")[:size]
        if len(order) < size or left[order[-1]] < 1:
            return gangs
        left[order] -= 1
        gangs += 1


def test_a_cluster_of_thousands_is_counted_by_arrays() -> None:
    nodes = [node(f"n{at}", H100) for at in range(2_000)]
    view = capacity(settled(nodes, [session("one", gpus=8, cpu=16)])).after
    assert sizes(view.sizes)["8 GPUs"] == (1_999, 0)
    assert view.typical[0].fits == 1_999


@pytest.mark.parametrize("queue", ["fifo", "no-such-policy"])
def test_a_group_with_an_unknown_policy_is_counted_all_the_same(queue: str) -> None:
    group = GroupInfo("main", queue=queue, selection="nobody-knows" if queue != "fifo" else "concentrated")
    assert capacity(Snapshot(NODES, (group,))).after.free["cuda.device"] == 16


def test_gangs_of_unlike_containers_are_counted_by_placing_them() -> None:
    gang = session("g", gpus=4, cpu=2, kernels=2, multi_node=True)
    kernels = (gang.kernels[0], replace(gang.kernels[1], slots={"cpu": 1000, "mem": GIB, "cuda.device": 2}))
    snapshot = replace(settled(NODES), pending=(replace(gang, kernels=kernels),))
    (wanted,) = capacity(snapshot).after.typical
    assert wanted.words == "1 node with 4 GPUs, 2 cores, 1 GiB and 1 node with 2 GPUs, 1 core, 1 GiB"
    assert (wanted.fits, wanted.at_least, wanted.nodes) == (2, True, 2)
