"""What would make room for who waits, and how far that is searched for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.types import (
    GroupInfo,
    NodeReservation,
    Outcome,
    Running,
    SessionRequest,
    Snapshot,
    Wait,
)
from planner.waiting import queue_forecast
from planner.waiting.forecast import TRIAL_COST
from tests.planner.support import machine, node, place, session

SIZE = 8
CPU = machine(numa=1, cores=SIZE, gpus=0)
NODES = tuple(node(name, CPU) for name in "abcd")


def full(*kernels: int) -> tuple[Wait, ...]:
    """The waits of sessions of so many nodes, all of which are full with sessions that end in turn."""
    held = tuple(
        session(f"held-{at}", cpu=SIZE, designated=frozenset({one.name}), timeout=100.0 * (at + 1))
        for at, one in enumerate(NODES)
    )
    placed = _placed(Snapshot(NODES, (GroupInfo("main"),), pending=held))
    runs = tuple(
        Running(request, placement, 0.0) for request, placement in zip(held, placed.placements, strict=True)
    )
    pending = tuple(
        session(f"s{at}", cpu=SIZE, multi_node=True, kernels=count) for at, count in enumerate(kernels)
    )
    return place(Snapshot(NODES, (GroupInfo("main"),), running=runs, pending=pending, now=0.0)).waits


def _placed(snapshot: Snapshot) -> Outcome:
    outcome = place(snapshot)
    assert not outcome.waits
    return outcome


def test_the_release_that_makes_room_is_named_and_nobody_is_promised_what_others_take_before() -> None:
    found = [(wait.freed_by, wait.latest, wait.cut_short) for wait in full(1, 2, 4)]
    assert found == [("held-0", 100.0, False), ("held-2", 300.0, False), ("held-3", None, False)]


def test_who_the_search_did_not_come_to_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_forecast, "SEARCH_BUDGET", 2 * TRIAL_COST)
    found = [(wait.freed_by, wait.latest, wait.cut_short) for wait in full(1, 2, 4)]
    assert found == [("held-0", 100.0, False), ("", None, True), ("", None, True)]


def test_what_no_release_helps_was_searched_to_the_end() -> None:
    (wait,) = full(5)
    assert (wait.freed_by, wait.latest, wait.cut_short) == ("", None, False)


def test_no_room_is_promised_on_a_node_that_is_kept_for_others_by_then() -> None:
    kept = NodeReservation("r", frozenset({"a"}), frozenset({"q"}), 200.0, 900.0)
    group = GroupInfo("main", reservations=(kept,))
    held = session("held", cpu=SIZE, timeout=300.0)
    (placed,) = _placed(Snapshot(NODES[:1], (GroupInfo("main"),), pending=(held,))).placements
    brief = session("brief", cpu=SIZE, timeout=50.0, project="p")
    for ends, latest in ((300.0, None), (120.0, 120.0)):
        running = (Running(replace(held, timeout=ends), placed, 0.0),)
        (wait,) = place(Snapshot(NODES[:1], (group,), running=running, pending=(brief,))).waits
        assert (wait.freed_by, wait.latest) == ("held" if latest else "", latest)


def test_a_timeout_beyond_the_calendar_is_as_good_as_none() -> None:
    held = session("held", cpu=SIZE, timeout=86_400.0 * 9_999_999)
    (placed,) = _placed(Snapshot(NODES[:1], (GroupInfo("main"),), pending=(held,))).placements
    running = (Running(held, placed, 0.0),)
    waiting = session("w", cpu=SIZE)
    (wait,) = place(Snapshot(NODES[:1], (GroupInfo("main"),), running=running, pending=(waiting,))).waits
    assert (wait.freed_by, wait.latest) == ("held", None)


SESSIONS = st.builds(
    lambda cpu, kernels, multi, timeout, priority: {
        "cpu": cpu,
        "kernels": kernels,
        "multi_node": multi,
        "timeout": timeout,
        "priority": priority,
    },
    cpu=st.integers(1, SIZE),
    kernels=st.sampled_from([1, 1, 2, 3]),
    multi=st.booleans(),
    timeout=st.sampled_from([None, 100.0, 100.0, 200.0, 250.0]),
    priority=st.sampled_from([10, 10, 20]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(SESSIONS, max_size=14), st.integers(1, 4), st.sampled_from(["concentrated", "dispersed"]))
def test_who_lasts_until_its_timeout_makes_room_when_it_was_said(
    wanted: list[dict[str, object]], nodes: int, selection: str
) -> None:
    """The queue is played out: a plan whenever somebody has ended."""
    group = GroupInfo("main", selection=selection)
    pending = tuple(
        session(f"s{at:02}", enqueued=float(at), memory=0, **one)  # type: ignore[arg-type]
        for at, one in enumerate(wanted)
    )
    first = place(Snapshot(NODES[:nodes], (group,), pending=pending))
    said = {wait.session: wait.latest for wait in first.waits}
    requests = {one.id: one for one in pending}
    starts = _played_out(Snapshot(NODES[:nodes], (group,), pending=pending), requests)
    assert said == {name: starts.get(name) for name in said}
    for wait in first.waits:
        assert wait.freed_by in ("", *(one.session for one in first.placements))


def _played_out(snapshot: Snapshot, requests: dict[str, SessionRequest]) -> dict[str, float]:
    """When each session starts that ever does."""
    starts: dict[str, float] = {}
    while True:
        outcome = place(snapshot)
        starts |= {one.session: snapshot.now for one in outcome.placements}
        running = snapshot.running + tuple(
            Running(requests[one.session], one, snapshot.now) for one in outcome.placements
        )
        pending = tuple(one for one in snapshot.pending if one.id not in starts)
        ends = {
            one.request.id: starts[one.request.id] + one.request.timeout
            for one in running
            if one.request.timeout is not None
        }
        if not ends or not pending:
            return starts
        now = min(ends.values())
        staying = tuple(one for one in running if ends.get(one.request.id) != now)
        snapshot = replace(snapshot, running=staying, pending=pending, now=now)
