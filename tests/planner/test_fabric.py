"""Links inside a node, and leaf switches and rails between nodes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.types import GroupInfo, NodeInfo, Outcome, Placement, SessionRequest, Snapshot
from schemas.hardware.model import Gpu, Hardware, Link, Nic, NumaNode
from tests.planner.audit import audit
from tests.planner.support import GIB, machine, node, place, session

CPU = machine(numa=1, cores=8, gpus=0)


def plan(nodes: tuple[NodeInfo, ...], *pending: SessionRequest, **group: object) -> Outcome:
    snapshot = Snapshot(nodes, (GroupInfo("main", **group),), pending=pending)  # type: ignore[arg-type]
    outcome = place(snapshot)
    audit(snapshot, outcome)
    return outcome


def gang(count: int, cpu: int = 8, **more: object) -> SessionRequest:
    return session("gang", cpu=cpu, kernels=count, multi_node=True, **more)  # type: ignore[arg-type]


def cluster(leaves: str, hardware: Hardware = CPU) -> tuple[NodeInfo, ...]:
    """One node per letter, on the leaf of this name; `-` names none."""
    labels = [{} if leaf == "-" else {"bai/leaf": leaf} for leaf in leaves]
    return tuple(node(f"n{at}", hardware, labels=one) for at, one in enumerate(labels))


def where(placement: Placement) -> list[int]:
    return sorted(int(kernel.node[1:]) for kernel in placement.kernels)


def test_a_gang_takes_the_leaf_that_just_holds_it() -> None:
    outcome = plan(cluster("aabbbcccc"), gang(3))
    assert where(outcome.placements[0]) == [2, 3, 4]
    choice = outcome.placements[0].choice
    assert choice is not None and choice.detail == "on leaf b"
    over = plan(cluster("abbb"), gang(4)).placements[0]
    assert over.choice is not None and over.choice.detail == "over 2 leaves (a, b)"


@settings(max_examples=60, deadline=None)
@given(st.text("abc-", min_size=1, max_size=8), st.integers(2, 5))
def test_no_choice_of_equal_nodes_needs_fewer_leaves(leaves: str, count: int) -> None:
    nodes = cluster(leaves)
    outcome = plan(nodes, gang(count))
    if len(nodes) < count:
        assert not outcome.placements
        return
    names = [leaf if leaf != "-" else at for at, leaf in enumerate(leaves)]
    used = len({names[at] for at in where(outcome.placements[0])})
    least = min(
        len({names[at] for at in chosen}) for chosen in itertools.combinations(range(len(nodes)), count)
    )
    assert used == least
    strict = plan(nodes, gang(count, same_leaf=True))
    fits = any(leaves.count(leaf) >= count for leaf in set(leaves) - {"-"})
    assert bool(strict.placements) == fits
    if fits:
        assert len({leaves[at] for at in where(strict.placements[0])}) == 1


def test_the_strategys_score_comes_before_the_leaf() -> None:
    fuller = machine(numa=1, cores=8, gpus=0, memory=100 * GIB)
    roomy = machine(numa=1, cores=8, gpus=0, memory=400 * GIB)
    nodes = tuple(
        node(f"n{at}", one, labels={"bai/leaf": leaf})
        for at, (one, leaf) in enumerate([(roomy, "a"), (roomy, "a"), (fuller, "b"), (fuller, "c")])
    )
    assert where(plan(nodes, gang(2)).placements[0]) == [2, 3]
    assert where(plan(nodes, gang(2, same_leaf=True)).placements[0]) == [0, 1]
    assert where(plan(nodes, gang(2), selection="dispersed").placements[0]) == [0, 1]


def test_why_one_leaf_is_not_enough() -> None:
    none = plan((node("n0", CPU), node("n1", CPU)), gang(2, same_leaf=True)).waits[0].reasons[0]
    assert none.code == "impossible" and "no node of group main has the label bai/leaf" in none.message
    small = plan(cluster("aab"), gang(3, same_leaf=True)).waits[0].reasons[0]
    assert small.code == "impossible"
    assert small.message.endswith("each on one leaf switch; the largest, a, has 2 of that size")
    holder = session("holder", cpu=8, priority=50, designated=frozenset({"n0"}))
    busy = plan(cluster("aab"), holder, gang(2, same_leaf=True)).waits[0].reasons[0]
    assert busy.code == "no-capacity"
    assert busy.message.endswith("a has the most that could take one now: 1, of 2 on all leaves")


def test_containers_that_differ_also_share_a_leaf() -> None:
    big, small = machine(numa=1, cores=8, gpus=0), machine(numa=1, cores=2, gpus=0)
    labels = [{"bai/leaf": leaf} for leaf in "abbc"]
    nodes = tuple(
        node(f"n{at}", one, labels=label)
        for at, (one, label) in enumerate(zip([big, small, big, small], labels, strict=True))
    )
    wanted = gang(2, same_leaf=True)
    kernels = (wanted.kernels[0], type(wanted.kernels[0])("sub1", "sub", 1, {"cpu": 1000}))
    mixed = SessionRequest("gang", "main", kernels, multi_node=True, same_leaf=True)
    assert where(plan(nodes, mixed).placements[0]) == [1, 2]


def railed(free: int = 4) -> Hardware:
    """Four GPUs, each with the NIC of its rail beside it; the first `free` are healthy."""
    return Hardware(
        numa_nodes=(NumaNode(id=0, cpus=tuple(range(8)), memory=64 * GIB),),
        gpus=tuple(
            Gpu(id=f"g{at}", index=at, numa_node=0, pcie_path=(f"s{at}",), healthy=at < free)
            for at in range(4)
        ),
        nics=tuple(Nic(id=f"mlx{at}", numa_node=0, rail=at, pcie_path=(f"s{at}",)) for at in range(4)),
        links=tuple(Link(a=f"g{at}", b=f"mlx{at}", kind="PIX") for at in range(4)),
    )


def test_kernels_of_a_gang_sit_on_one_rail() -> None:
    nodes = (node("n0", railed()), node("n1", railed()))
    first = session("first", gpus=1, designated=frozenset({"n0"}), priority=50)
    outcome = plan(nodes, first, gang(2, cpu=1, gpus=1))
    nics = [kernel.nics for kernel in outcome.placements[1].kernels]
    assert len(nics) == 2 and nics[0] == nics[1] != ()


def test_among_equal_nodes_one_on_the_rail_is_taken() -> None:
    """Every node has one GPU free; those of n0 and n2 are on rail 3, that of n1 on rail 0."""
    nodes = tuple(
        node(f"n{at}", railed(), unhealthy=frozenset({"g0", "g1", "g2", "g3"} - {left}))
        for at, left in enumerate(["g3", "g0", "g3"])
    )
    assert where(plan(nodes, gang(2, cpu=1, gpus=1)).placements[0]) == [0, 2]


def pairs() -> Hardware:
    """Four GPUs, joined in pairs across the NUMA nodes: 0-2 and 1-3."""
    return Hardware(
        numa_nodes=tuple(
            NumaNode(id=at, cpus=tuple(range(8 * at, 8 * at + 8)), memory=64 * GIB, distances={1 - at: 21})
            for at in range(2)
        ),
        gpus=tuple(Gpu(id=f"g{at}", index=at, model="V100", numa_node=at // 2) for at in range(4)),
        links=(Link(a="g0", b="g2", kind="NV", count=2), Link(a="g1", b="g3", kind="NV", count=2)),
    )


@pytest.mark.parametrize("numa", ["prefer-single-node", "interleaving"])
def test_nvlink_is_worth_another_numa_node_where_it_is_required(numa: str) -> None:
    nodes = (node("n0", pairs()),)
    wanted = session("s", gpus=2, require_nvlink=True)
    placed = plan(nodes, wanted, numa=numa).placements[0].kernels[0]
    assert {one.id for one in placed.devices} in ({"g0", "g2"}, {"g1", "g3"})
    free = plan(nodes, session("s", gpus=2)).placements[0].kernels[0]
    assert {one.id for one in free.devices} in ({"g0", "g1"}, {"g2", "g3"})


def test_parts_of_several_gpus_are_joined_too() -> None:
    wanted = session("s", shares=1500, require_nvlink=True)
    placed = plan((node("n0", pairs()),), wanted).placements[0].kernels[0]
    assert {one.id for one in placed.devices} in ({"g0", "g2"}, {"g1", "g3"})


def test_why_nvlink_holds_a_session_back() -> None:
    nodes = (node("n0", pairs()),)
    never = plan(nodes, session("s", gpus=3, require_nvlink=True)).waits[0].reasons[0]
    assert never.code == "impossible"
    assert never.message.endswith("no node of group main has so many joined by NVLink")
    holders = [session(f"h{at}", gpus=2, priority=50) for at in range(1)]
    now = plan(nodes, *holders, session("s", gpus=2, require_nvlink=True)).waits[0].reasons[0]
    assert now.code == "no-capacity" and "not with all its GPUs joined by NVLink" in now.message
    switched = plan((node("n0", machine(gpus=8)),), session("s", gpus=8, require_nvlink=True))
    assert switched.placements
