"""Who is pushed out for whom, and who is not."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.types import (
    GroupInfo,
    NodeReservation,
    Outcome,
    PreemptionRule,
    QuotaLimit,
    Running,
    SessionRequest,
    Snapshot,
)
from tests.planner.audit import audit
from tests.planner.support import machine, node, place, session

CPU = machine(numa=1, cores=8, gpus=0)
EIGHT = machine(numa=2, cores=8, gpus=8)
GROUP = GroupInfo("main", preemption=PreemptionRule())


def running(
    nodes: tuple, *holders: SessionRequest, started: dict[str, float] | None = None
) -> tuple[Running, ...]:
    placements = {one.session: one for one in place(Snapshot(nodes, (GROUP,), pending=holders)).placements}
    assert len(placements) == len(holders)
    return tuple(Running(one, placements[one.id], (started or {}).get(one.id, 0.0)) for one in holders)


def plan(nodes: tuple, held: tuple[Running, ...], *pending: SessionRequest, **more: object) -> Outcome:
    given = {"groups": (GROUP,), "now": 1000.0} | more
    snapshot = Snapshot(nodes, running=held, pending=pending, **given)  # type: ignore[arg-type]
    outcome = place(snapshot)
    audit(snapshot, outcome)
    return outcome


def low(name: str, cpu: int = 4, **more: object) -> SessionRequest:
    return session(name, cpu=cpu, priority=1, preemptible=True, **more)  # type: ignore[arg-type]


def evicted(outcome: Outcome) -> list[str]:
    return sorted(one.session for one in outcome.evictions)


def test_nobody_is_pushed_out_where_there_is_room_or_the_group_does_not_allow_it() -> None:
    nodes = (node("a", CPU), node("b", CPU))
    held = running(nodes, low("x", cpu=8))
    assert evicted(plan(nodes, held, session("new", cpu=8))) == []
    full = running(nodes, low("x", cpu=8), low("y", cpu=8))
    assert evicted(plan(nodes, full, session("new", cpu=8), groups=(GroupInfo("main"),))) == []
    assert len(evicted(plan(nodes, full, session("new", cpu=8)))) == 1


def test_nobody_goes_for_a_session_that_still_would_not_fit() -> None:
    nodes = (node("a", CPU),)
    held = running(nodes, low("x"), session("firm", cpu=2, priority=1))
    outcome = plan(nodes, held, session("new", cpu=8))
    assert evicted(outcome) == []
    reason = outcome.waits[0].reasons[-1]
    assert reason.code == "preemption"
    assert reason.message == (
        "1 preemptible session of lower priority than 10; without them it would still not fit"
    )


@pytest.mark.parametrize("change", [{"priority": 10}, {"priority": 50}, {"preemptible": False}])
def test_equal_or_higher_priority_and_the_firm_stay(change: dict[str, object]) -> None:
    nodes = (node("a", CPU),)
    held = running(nodes, session("x", cpu=8, **({"priority": 1, "preemptible": True} | change)))
    outcome = plan(nodes, held, session("new", cpu=8))
    assert evicted(outcome) == []
    assert outcome.waits[0].reasons[-1].message.startswith("nobody may be pushed out")


def test_what_it_depends_on_stays() -> None:
    nodes = (node("a", CPU),)
    held = running(nodes, low("x", cpu=8))
    assert evicted(plan(nodes, held, session("new", cpu=8, depends_on=frozenset({"x"})))) == []


def test_the_minimum_run_time_protects() -> None:
    nodes = (node("a", CPU),)
    held = running(nodes, low("x", cpu=8), started={"x": 900.0})
    groups = (GroupInfo("main", preemption=PreemptionRule(minimum_run=200.0)),)
    outcome = plan(nodes, held, session("new", cpu=8), groups=groups)
    assert evicted(outcome) == []
    assert "none has run for 200 s" in outcome.waits[0].reasons[-1].message
    assert evicted(plan(nodes, held, session("new", cpu=8), groups=groups, now=1100.0)) == ["x"]


def test_the_fewest_go_then_the_lowest_priority_then_the_least_run() -> None:
    nodes = (node("a", CPU), node("b", CPU))
    small = [low(f"s{at}", cpu=4, designated=frozenset({"a"})) for at in range(2)]
    big = low("big", cpu=8, designated=frozenset({"b"}))
    assert evicted(plan(nodes, running(nodes, *small, big), session("new", cpu=8))) == ["big"]
    one = (node("a", CPU),)
    held = running(one, low("old"), low("young"), started={"old": 0.0, "young": 990.0})
    assert evicted(plan(one, held, session("new", cpu=4))) == ["young"]
    held = running(one, low("young"), session("lower", cpu=4, priority=0, preemptible=True))
    assert evicted(plan(one, held, session("new", cpu=4))) == ["lower"]


def test_a_gang_pushes_out_on_as_many_nodes_as_it_needs() -> None:
    nodes = tuple(node(name, EIGHT) for name in "abc")
    holders = [low(f"g{name}", cpu=1, gpus=8, designated=frozenset({name})) for name in "abc"]
    held = running(nodes, *holders, started={"gb": 999.0, "gc": 998.0})
    gang = session("gang", cpu=1, gpus=8, kernels=2, multi_node=True)
    outcome = plan(nodes, held, gang)
    assert evicted(outcome) == ["gb", "gc"]
    assert sorted(kernel.node for kernel in outcome.placements[0].kernels) == ["b", "c"]


def test_a_gang_of_different_containers_pushes_out_who_is_in_the_way() -> None:
    nodes = (node("a", CPU), node("b", CPU))
    held = running(nodes, low("x", cpu=6, designated=frozenset({"a"})), low("y", cpu=8))
    gang = session("gang", cpu=8, kernels=2, multi_node=True)
    different = gang.kernels[1].slots | {"cpu": 2000}
    kernels = (gang.kernels[0], type(gang.kernels[1])("sub1", "sub", 1, different))
    gang = SessionRequest("gang", "main", kernels, multi_node=True)
    assert evicted(plan(nodes, held, gang)) == ["y"]


def test_victims_are_told_apart_by_who_pushed_them_and_the_rest_may_use_what_is_left() -> None:
    nodes = (node("a", CPU),)
    held = running(nodes, low("x", cpu=8))
    outcome = plan(nodes, held, session("new", cpu=4), session("other", cpu=4, enqueued=1.0))
    assert [one.session for one in outcome.placements] == ["new", "other"]
    assert [(one.session, one.by) for one in outcome.evictions] == [("x", "new")]
    assert outcome.evictions[0].why == "priority 1 makes room for new with priority 10"


def test_own_quota_is_freed_by_own_sessions_only() -> None:
    nodes = (node("a", CPU),)
    quota = (QuotaLimit("q", "user", "u", slots={"cpu": 4000}),)
    mine, other = low("mine", cpu=4, user="u"), low("other", cpu=4, user="v")
    held = running(nodes, mine, other)
    assert evicted(plan(nodes, held, session("new", cpu=4, user="u"), quotas=quota)) == ["mine"]
    held = running(nodes, other)
    too_much = plan(nodes, held, session("new", cpu=5, user="u"), quotas=quota)
    assert evicted(too_much) == [] and too_much.waits[0].reasons[0].code == "quota"


def test_nodes_kept_for_others_are_not_freed() -> None:
    nodes = (node("a", CPU),)
    kept = NodeReservation("r", frozenset({"a"}), frozenset({"p"}), 0.0, 5000.0)
    groups = (GroupInfo("main", preemption=PreemptionRule(), reservations=(kept,)),)
    held = running(nodes, low("x", cpu=8, project="p"))
    assert evicted(plan(nodes, held, session("new", cpu=8, project="q"), groups=groups)) == []
    assert evicted(plan(nodes, held, session("new", cpu=8, project="p"), groups=groups)) == ["x"]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3), st.booleans()), max_size=7),
    st.integers(1, 8),
    st.integers(0, 4),
)
def test_as_few_go_as_any_search_would_find(
    holders: list[tuple[int, int, bool]], cpu: int, priority: int
) -> None:
    nodes = (node("a", CPU), node("b", CPU))
    first = tuple(
        session(f"h{at}", cpu=size, priority=rank, preemptible=may)
        for at, (size, rank, may) in enumerate(holders)
    )
    placed = {one.session: one for one in place(Snapshot(nodes, (GROUP,), pending=first)).placements}
    held = tuple(Running(one, placed[one.id], 0.0) for one in first if one.id in placed)
    outcome = plan(nodes, held, session("new", cpu=cpu, priority=priority))
    able = [one for one in held if one.request.preemptible and one.request.priority < priority]
    need = None
    for size in range(len(able) + 1):
        for gone in itertools.combinations(able, size):
            left = tuple(one for one in held if one not in gone)
            alone = place(
                Snapshot(nodes, (GroupInfo("main"),), running=left, pending=(session("new", cpu=cpu),))
            )
            if alone.placements and need is None:
                need = size
    assert len(outcome.evictions) == (need or 0)
    assert bool(outcome.placements) == (need is not None)
