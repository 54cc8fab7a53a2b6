"""How replicas of one service lie on nodes, and how many of them may be pushed out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.service_replica import ServiceReplica, Spread
from planner.model.types import (
    GroupInfo,
    NodeInfo,
    Outcome,
    PreemptionRule,
    Running,
    SessionRequest,
    Snapshot,
)
from tests.planner.audit import audit
from tests.planner.support import GIB, machine, node, place, session

CPU = machine(numa=1, cores=8, gpus=0, memory=64 * GIB)
GPU = machine(numa=2, cores=8, gpus=4)
WEB = "Service/p/web"


def replica(
    number: int, placement: Spread = "spread", generation: str = "g2", service: str = WEB, **more: object
) -> SessionRequest:
    name = f"{service}-{generation}-{number:03}"
    return session(name, replica_of=ServiceReplica(service, generation, placement), **more)  # type: ignore[arg-type]


def plan(nodes: tuple[NodeInfo, ...], *pending: SessionRequest, **more: object) -> Outcome:
    given = {"groups": (GroupInfo("main"),)} | more
    snapshot = Snapshot(nodes, pending=pending, **given)  # type: ignore[arg-type]
    outcome = place(snapshot)
    audit(snapshot, outcome)
    assert place(snapshot) == outcome
    return outcome


def counts(outcome: Outcome) -> Counter[str]:
    return Counter(kernel.node for one in outcome.placements for kernel in one.kernels)


def on(nodes: tuple[NodeInfo, ...], *places: tuple[str, SessionRequest]) -> tuple[Running, ...]:
    """Sessions that run, each on the node that is named."""
    there = tuple(replace(request, designated=frozenset({name})) for name, request in places)
    placed = {
        one.session: one for one in place(Snapshot(nodes, (GroupInfo("main"),), pending=there)).placements
    }
    return tuple(Running(request, placed[request.id], 0.0) for _, request in places)


def nodes_of(count: int, hardware: object = CPU) -> tuple[NodeInfo, ...]:
    return tuple(node(f"n{at}", hardware) for at in range(count))  # type: ignore[arg-type]


@pytest.mark.parametrize("selection", ["concentrated", "dispersed", "roundrobin", "least-fragmentation"])
def test_replicas_are_spread_whatever_the_group_selects(selection: str) -> None:
    group = GroupInfo("main", selection=selection)
    found = plan(nodes_of(4), *(replica(at) for at in range(6)), groups=(group,))
    assert sorted(counts(found).values()) == [1, 1, 2, 2]


def test_others_lie_as_their_group_selects_beside_them() -> None:
    nodes = nodes_of(3)
    found = plan(nodes, *(session(f"a{at}") for at in range(3)), *(replica(at) for at in range(3)))
    where = {one.session: one.kernels[0].node for one in found.placements}
    assert len({where[f"a{at}"] for at in range(3)}) == 1
    assert len({node for name, node in where.items() if name.startswith(WEB)}) == 3


def test_packed_replicas_share_nodes_though_the_group_disperses() -> None:
    group = GroupInfo("main", selection="dispersed")
    found = plan(nodes_of(4), *(replica(at, "pack", cpu=2) for at in range(6)), groups=(group,))
    assert sorted(counts(found).values()) == [2, 4]


def test_nobody_waits_for_a_better_node() -> None:
    found = plan(nodes_of(1), *(replica(at) for at in range(5)))
    assert not found.waits and counts(found) == {"n0": 5}


def test_what_runs_counts_of_any_generation_and_the_same_one_first() -> None:
    nodes = nodes_of(3)
    held = on(
        nodes,
        ("n0", replica(1, generation="g2")),
        ("n1", replica(1, generation="g1")),
        ("n1", replica(2, generation="g1")),
        ("n2", replica(3, generation="g1")),
    )
    order = [
        kernel.node
        for one in plan(nodes, replica(2), replica(3), replica(4), running=held).placements
        for kernel in one.kernels
    ]
    # n2 and n1 have none of g2, n2 fewer of any; then each has one of g2, and n0 the fewest of any.
    assert order == ["n2", "n1", "n0"]


def test_another_service_does_not_count() -> None:
    nodes = nodes_of(2)
    held = on(nodes, *(("n0", replica(at, service="Service/p/other")) for at in range(3)))
    (placed,) = plan(nodes, replica(1), running=held).placements
    assert placed.kernels[0].node == "n0" and placed.choice is not None
    assert placed.choice.detail == "spread: no other replica of Service/p/web there"


def test_a_node_without_devices_is_no_reason_to_share_it() -> None:
    """What needs no devices stays off them only among nodes with as few replicas."""
    nodes = (node("cpu", CPU), node("gpu0", GPU), node("gpu1", GPU))
    assert counts(plan(nodes, replica(1))) == {"cpu": 1}
    assert counts(plan(nodes, *(replica(at) for at in range(3)))) == {"cpu": 1, "gpu0": 1, "gpu1": 1}


def test_why_this_node_is_told() -> None:
    nodes = nodes_of(2)
    held = on(nodes, ("n0", replica(1)), ("n0", replica(2)))
    (placed,) = plan(nodes, replica(3), running=held).placements
    assert placed.choice is not None
    assert placed.choice.detail == "spread: no other replica of Service/p/web there"
    assert placed.choice.runner_up.startswith("n0 (leaves 5 cores")
    assert placed.choice.runner_up.endswith("; 2 replicas of Service/p/web there)")
    (packed,) = plan(nodes, replica(3, "pack"), running=held).placements
    assert packed.choice is not None
    assert packed.choice.detail == "pack: 2 other replicas of Service/p/web there"
    assert packed.choice.runner_up.endswith("; 0 replicas of Service/p/web there)")


def test_why_a_node_with_as_many_of_another_generation_is_better() -> None:
    nodes = nodes_of(2)
    held = on(nodes, ("n0", replica(1)), ("n1", replica(1, generation="g1")))
    (placed,) = plan(nodes, replica(2), running=held).placements
    assert placed.kernels[0].node == "n1" and placed.choice is not None
    assert "1 replica of this generation there" in placed.choice.runner_up
    assert placed.choice.detail == "spread: 1 other replica of Service/p/web there"


def test_containers_of_one_replica_on_one_node_count_once() -> None:
    nodes = nodes_of(2)
    held = on(
        nodes,
        ("n0", replica(1, kernels=3)),
        ("n1", replica(2)),
        ("n1", replica(3)),
    )
    (placed,) = plan(nodes, replica(4), running=held).placements
    assert placed.kernels[0].node == "n0"


def test_replicas_over_several_nodes_do_not_share_any() -> None:
    gangs = tuple(replica(at, kernels=2, multi_node=True, gpus=1) for at in range(3))
    found = plan(nodes_of(6, GPU), *gangs)
    assert set(counts(found).values()) == {1} and len(counts(found)) == 6
    packed = tuple(replica(at, "pack", kernels=2, multi_node=True, gpus=1) for at in range(3))
    assert sorted(counts(plan(nodes_of(6, GPU), *packed)).values()) == [3, 3]


def test_replicas_on_one_leaf_each_take_another_leaf() -> None:
    nodes = tuple(node(f"n{at}", GPU, labels={"bai/leaf": f"l{at // 2}"}) for at in range(6))
    gangs = tuple(replica(at, kernels=2, multi_node=True, gpus=1, same_leaf=True) for at in range(3))
    found = plan(nodes, *gangs)
    leaves = [{int(kernel.node[1:]) // 2 for kernel in one.kernels} for one in found.placements]
    assert sorted(map(tuple, leaves)) == [(0,), (1,), (2,)]
    packed = tuple(replace(one, replica_of=ServiceReplica(WEB, "g2", "pack")) for one in gangs)
    assert len(counts(plan(nodes, *packed))) == 2


def test_replicas_keep_their_nodes_where_the_whole_queue_is_packed() -> None:
    pytest.importorskip("ortools")
    group = GroupInfo("main", packing="whole-queue")
    jobs = (*(session(f"j{at}", cpu=5) for at in range(2)), session("late", cpu=8, enqueued=9.0))
    found = plan(nodes_of(3), *(replica(at) for at in range(3)), *jobs, groups=(group,))
    here = {one.kernels[0].node for one in found.placements if one.session.startswith(WEB)}
    assert len(here) == 3


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(1, 7),
    first=st.integers(0, 9),
    more=st.integers(0, 12),
    selection=st.sampled_from(["concentrated", "dispersed", "roundrobin", "least-fragmentation"]),
    gpus=st.integers(0, 1),
)
def test_where_room_is_equal_counts_differ_by_at_most_one(
    count: int, first: int, more: int, selection: str, gpus: int
) -> None:
    """In one plan, and in one on top of what runs."""
    hardware = machine(numa=2, cores=16, gpus=32)
    nodes, groups = nodes_of(count, hardware), (GroupInfo("main", selection=selection),)
    begun = plan(nodes, *(replica(at, gpus=gpus) for at in range(first)), groups=groups)
    held = tuple(Running(replica(at, gpus=gpus), one, 0.0) for at, one in enumerate(begun.placements))
    pending = tuple(replica(first + at, gpus=gpus) for at in range(more))
    total = counts(begun) + counts(plan(nodes, *pending, groups=groups, running=held))
    assert sum(total.values()) == first + more
    there = [total[one.name] for one in nodes]
    assert max(there) - min(there) <= 1


@settings(max_examples=100, deadline=None)
@given(
    cores=st.lists(st.integers(0, 7), min_size=1, max_size=6),
    replicas=st.integers(0, 12),
    placement=st.sampled_from(["spread", "pack"]),
)
def test_a_replica_waits_only_where_an_ordinary_session_does(
    cores: list[int], replicas: int, placement: Spread
) -> None:
    nodes = nodes_of(len(cores))
    held = on(
        nodes, *((f"n{at}", session(f"held{at}", cpu=taken)) for at, taken in enumerate(cores) if taken)
    )
    waits = [
        len(plan(nodes, *sessions, running=held).waits)
        for sessions in (
            [replica(at, placement, cpu=3) for at in range(replicas)],
            [session(f"s{at:03}", cpu=3) for at in range(replicas)],
        )
    ]
    assert waits[0] == waits[1]


# Pushed out for others


RULES = (GroupInfo("main", preemption=PreemptionRule()),)


def low(number: int, **more: object) -> SessionRequest:
    return replica(number, priority=1, preemptible=True, **more)


def evicted(outcome: Outcome) -> list[str]:
    return sorted(one.session for one in outcome.evictions)


@pytest.mark.parametrize(("budget", "gone"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_no_more_replicas_are_pushed_out_than_the_service_can_do_without(budget: int, gone: int) -> None:
    nodes = nodes_of(3)
    held = on(nodes, *((f"n{at}", low(at, cpu=8)) for at in range(3)))
    news = tuple(session(f"new{at}", cpu=8) for at in range(3))
    found = plan(nodes, *news, groups=RULES, running=held, disruptions={WEB: budget})
    assert len(evicted(found)) == gone and len(found.waits) == 3 - gone


def test_no_session_is_made_room_for_by_more_replicas_at_once() -> None:
    nodes = nodes_of(2)
    held = on(nodes, ("n0", low(0, cpu=4)), ("n0", low(1, cpu=4)), ("n1", session("firm", cpu=8)))
    wide = session("wide", cpu=8)
    assert evicted(plan(nodes, wide, groups=RULES, running=held, disruptions={WEB: 1})) == []
    assert len(evicted(plan(nodes, wide, groups=RULES, running=held, disruptions={WEB: 2}))) == 2


def test_a_gang_takes_one_replica_and_somebody_else() -> None:
    nodes = nodes_of(3)
    held = on(
        nodes,
        ("n0", low(0, cpu=8)),
        ("n1", low(1, cpu=8)),
        ("n2", session("x", cpu=8, priority=2, preemptible=True)),
    )
    gang = session("gang", cpu=8, kernels=2, multi_node=True)
    found = plan(nodes, gang, groups=RULES, running=held, disruptions={WEB: 1})
    assert len(evicted(found)) == 2 and "x" in evicted(found)


def test_replicas_that_are_not_ready_go_whatever_the_budget() -> None:
    nodes = nodes_of(3)
    spare = replace(low(0, cpu=8), replica_of=ServiceReplica(WEB, "g2", "spread", spare=True))
    held = on(nodes, ("n0", spare), ("n1", low(1, cpu=8)), ("n2", low(2, cpu=8)))
    news = tuple(session(f"new{at}", cpu=8) for at in range(3))
    found = plan(nodes, *news, groups=RULES, running=held, disruptions={WEB: 0})
    assert evicted(found) == [spare.id]
    found = plan(nodes, *news, groups=RULES, running=held, disruptions={WEB: 1})
    assert len(evicted(found)) == 2 and spare.id in evicted(found)


def test_why_no_replica_makes_room() -> None:
    nodes = nodes_of(1)
    held = on(nodes, ("n0", low(0, cpu=8)))
    found = plan(nodes, session("new", cpu=8), groups=RULES, running=held, disruptions={WEB: 0})
    assert found.waits[0].reasons[-1].message == (
        "nobody may be pushed out: no preemptible session of lower priority than 10; "
        "services need 1 replica of theirs"
    )


def test_a_replica_that_was_pushed_out_counts_no_longer() -> None:
    nodes = nodes_of(2)
    held = on(nodes, ("n0", low(0, cpu=5)), ("n1", session("firm", cpu=6)))
    news = (replica(1, priority=30), session("urgent", cpu=5, priority=20), replica(2, priority=5))
    found = plan(nodes, *news, groups=RULES, running=held, disruptions={WEB: 1})
    where = {one.session: one.kernels[0].node for one in found.placements}
    assert where == {news[0].id: "n1", "urgent": "n0", news[2].id: "n0"}


@settings(max_examples=150, deadline=None)
@given(
    budgets=st.lists(st.integers(0, 3), min_size=2, max_size=2),
    owners=st.lists(st.integers(0, 2), max_size=8),
    wants=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 2)), max_size=5),
)
def test_budgets_hold_whoever_asks(
    budgets: list[int], owners: list[int], wants: list[tuple[int, int]]
) -> None:
    """Two services and sessions of nobody's on four nodes."""
    nodes, names = nodes_of(4), ("Service/p/a", "Service/p/b")
    kinds = [
        low(at, cpu=4, service=names[owner])
        if owner < 2
        else session(f"x{at}", cpu=4, priority=1, preemptible=True)
        for at, owner in enumerate(owners)
    ]
    held = on(nodes, *((f"n{at % 4}", one) for at, one in enumerate(kinds)))
    news = tuple(
        session(f"new{at}", cpu=cpu, kernels=kernels, multi_node=kernels > 1)
        for at, (cpu, kernels) in enumerate(wants)
    )
    allowed = dict(zip(names, budgets, strict=True))
    found = plan(nodes, *news, groups=RULES, running=held, disruptions=allowed)
    gone = Counter(name.partition("-")[0] for name in evicted(found))
    assert all(gone[name] <= allowed[name] for name in names)
