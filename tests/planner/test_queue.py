"""Orders of the queue, and how often the head is passed over."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model.plan_time import PlanTime
from planner.model.types import (
    Fractional,
    GroupInfo,
    NodeInfo,
    QuotaLimit,
    Reason,
    Running,
    SessionRequest,
    Snapshot,
)
from planner.queue.base import QueueView
from tests.planner.support import BUILT_IN, machine, node, place, session

CPU = machine(numa=1, cores=10, gpus=0)


def order(policy: str, pending: list[SessionRequest], **view: object) -> list[str]:
    options = view.pop("options", {})
    group = GroupInfo("main", queue=policy, queue_options=options)  # type: ignore[arg-type]
    seen = QueueView(group, PlanTime(1000.0), capacity={"cpu": 10_000}, **view)  # type: ignore[arg-type]
    found = []
    for one in BUILT_IN.queue[policy](pending, seen):
        found.append(one.id)
        held = seen.held.setdefault(one.user, {})
        held["cpu"] = held.get("cpu", 0) + one.kernels[0].slots["cpu"]
    return found


def queue(*users: str, cpu: int = 1) -> list[SessionRequest]:
    return [session(f"{user}{at}", cpu=cpu, user=user, enqueued=float(at)) for at, user in enumerate(users)]


def test_fifo_and_lifo() -> None:
    pending = queue("a", "b", "c")
    assert order("fifo", pending[::-1]) == ["a0", "b1", "c2"]
    assert order("lifo", pending) == ["c2", "b1", "a0"]


def test_drf_fills_progressively_and_respects_weights() -> None:
    pending = queue("a", "a", "a", "b", "b")
    assert order("drf", pending) == ["a0", "b3", "a1", "b4", "a2"]
    assert order("drf", pending, options={"weights": {"a": 2}}) == ["a0", "b3", "a1", "a2", "b4"]
    assert order("drf", pending, held={"a": {"cpu": 2000, "tpu.device": 9}}) == ["b3", "b4", "a0", "a1", "a2"]


def test_fair_share_looks_back() -> None:
    pending = queue("a", "b")
    assert order("fair-share", pending) == ["a0", "b1"]
    assert order("fair-share", pending, decayed_usage={"a": 5.0}) == ["b1", "a0"]
    old = session("old", cpu=5, user="a")
    placed = place(Snapshot((node("n", CPU),), (GroupInfo("main"),), pending=(old,))).placements[0]
    assert order("fair-share", pending, running=(Running(old, placed, started=0.0),)) == ["b1", "a0"]


def test_priority_comes_before_any_policy() -> None:
    pending = tuple(
        dataclasses.replace(one, priority=priority)
        for one, priority in zip(queue("a", "b", cpu=10), (1, 2), strict=True)
    )
    for policy in BUILT_IN.queue:
        outcome = place(Snapshot((node("n", CPU),), (GroupInfo("main", queue=policy),), pending=pending))
        assert [one.session for one in outcome.placements] == ["b1"]


@given(st.integers(0, 4), st.lists(st.integers(1, 10), max_size=12), st.integers(0, 9))
def test_nobody_is_passed_over_more_often_than_allowed(limit: int, sizes: list[int], taken: int) -> None:
    group = GroupInfo("main", queue_options={"maxSkips": limit})
    nodes = (node("n", CPU),)
    holder = session("holder", cpu=taken)
    running = tuple(
        Running(holder, one) for one in place(Snapshot(nodes, (group,), pending=(holder,))).placements
    )
    pending = tuple(session(f"s{at:02}", cpu=cpu, enqueued=float(at)) for at, cpu in enumerate(sizes))
    outcome = place(Snapshot(nodes, (group,), running=running, pending=pending))
    placed = {one.session for one in outcome.placements}
    for wait in outcome.waits:
        later = sum(one > wait.session for one in placed)
        assert later == wait.skips <= limit and wait.passed_over == (later > 0)


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("queue", "drf, fair-share, fifo, lifo"),
        ("selection", "concentrated, dispersed, least-fragmentation, roundrobin"),
    ],
)
def test_a_policy_that_is_not_installed_is_a_reason(kind: str, known: str) -> None:
    group = dataclasses.replace(GroupInfo("main"), **{kind: "mine"})
    wait = place(Snapshot((node("n", CPU),), (group,), pending=(session("s"),))).waits[0]
    message = f"group main names the {kind} policy mine, which is not installed; known: {known}"
    assert wait.reasons == (Reason("no-policy", message),)


def test_a_group_without_nodes_is_a_reason() -> None:
    wait = place(Snapshot((), (GroupInfo("main"),), pending=(session("s"),))).waits[0]
    assert wait.reasons == (Reason("no-node", "group main has no nodes"),)


def test_a_group_that_does_not_exist_is_a_reason() -> None:
    outcome = place(Snapshot((), (), pending=(session("s"),)))
    assert outcome.waits[0].reasons == (Reason("no-group", "there is no resource group main"),)


def test_types_projects_and_pending_limits() -> None:
    group = GroupInfo("main", allowed_types=frozenset({"batch"}), allowed_projects=frozenset({"p"}))
    quota = QuotaLimit("q", "user", "u", pending=1)
    pending = tuple(session(f"s{at}", user="u", project="x", enqueued=float(at)) for at in range(2))
    outcome = place(Snapshot((node("n", CPU),), (group,), (quota,), pending=pending))
    codes = [[reason.code for reason in wait.reasons] for wait in outcome.waits]
    assert codes == [["type", "project"], ["quota", "type", "project"]]


def test_quotas_before_and_after() -> None:
    nodes: tuple[NodeInfo, ...] = (node("n", CPU),)
    quota = QuotaLimit("q", "user", "u", slots={"cpu": 3000}, unspecified="zero")
    one = session("one", cpu=2, memory=0, user="u")
    outcome = place(Snapshot(nodes, (GroupInfo("main"),), (quota,), pending=(one,)))
    use = outcome.quotas[0]
    assert (use.subject, use.before["cpu"], use.after["cpu"], use.limit["cpu"]) == ("user u", 0, 2000, 3000)
    memory = place(Snapshot(nodes, (GroupInfo("main"),), (quota,), pending=(session("two", user="u"),)))
    assert [reason.code for reason in memory.waits[0].reasons] == ["quota"]


def test_a_gang_whose_containers_can_never_all_have_a_node_holds_nobody_up() -> None:
    nodes = (node("a", machine()), node("b", CPU))
    gang = session("gang", gpus=8, kernels=2, multi_node=True)
    fewer = dataclasses.replace(gang.kernels[1], slots={**gang.kernels[1].slots, "cuda.device": 7})
    gang = dataclasses.replace(gang, kernels=(gang.kernels[0], fewer))
    group = GroupInfo("main", queue_options={"maxSkips": 0})
    outcome = place(Snapshot(nodes, (group,), pending=(gang, session("later", enqueued=1.0))))
    assert [one.session for one in outcome.placements] == ["later"]
    (reason,) = outcome.waits[0].reasons
    assert reason.code == "impossible" and reason.message.endswith("one by one, and never all of them")


def test_a_gang_is_told_only_what_it_lacks() -> None:
    nodes = (node("a", machine()), node("b", machine()))
    held = session("held", gpus=4, designated=frozenset({"a"}), priority=90)
    gang = session("gang", gpus=8, kernels=2, multi_node=True)
    fewer = dataclasses.replace(gang.kernels[1], slots={**gang.kernels[1].slots, "cuda.device": 5})
    gang = dataclasses.replace(gang, kernels=(gang.kernels[0], fewer))
    (wait,) = place(Snapshot(nodes, (GroupInfo("main"),), pending=(held, gang))).waits
    (reason,) = wait.reasons
    assert reason.code == "no-capacity" and "there is room for each" in reason.message


def test_quotas_count_the_parts_of_devices_that_are_given() -> None:
    group = GroupInfo("main", fractional=Fractional(quantum=250, shares_per_device=2))
    quota = QuotaLimit("q", "user", "u", slots={"cuda.shares": 1000}, per_session={"cuda.shares": 100})
    pending = tuple(session(f"s{at}", shares=100, user="u", enqueued=float(at)) for at in range(3))
    outcome = place(Snapshot((node("n", machine()),), (group,), (quota,), pending=pending))
    assert [one.session for one in outcome.placements] == ["s0", "s1"]
    assert outcome.quotas[0].after["cuda.shares"] == 1000
    (reason,) = outcome.waits[0].reasons
    assert reason.message == (
        "quota q (user u): uses 1 cuda.shares of 1 cuda.shares; this session asks for 0.1 cuda.shares more "
        "and is given 0.5 cuda.shares"
    )
