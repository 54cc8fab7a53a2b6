"""Whole-queue packing inside `place`: more is placed, nobody is given up, and every rule still holds."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings

from planner.model.types import GroupInfo, Outcome, QuotaLimit, SessionRequest, Snapshot
from tests.planner.audit import audit
from tests.planner.support import machine, node, place, session
from tests.planner.test_place_properties import snapshots

GROUP = GroupInfo("main", selection="dispersed")
WHOLE = dataclasses.replace(GROUP, packing="whole-queue")
SMALL = machine(numa=1, cores=10, gpus=4)


def queue(*cores: int) -> tuple[SessionRequest, ...]:
    return tuple(session(f"s{at}", cpu=cpu, gpus=1, enqueued=at) for at, cpu in enumerate(cores))


def both(*pending: SessionRequest, nodes: int = 2, group: GroupInfo = WHOLE, **more: object) -> Outcome:
    members = tuple(node(f"n{at}", SMALL) for at in range(nodes))
    snapshot = Snapshot(members, (group,), pending=pending, **more)  # type: ignore[arg-type]
    outcome = place(snapshot)
    audit(snapshot, outcome)
    return outcome


def placed(outcome: Outcome) -> set[str]:
    return {one.session for one in outcome.placements}


def test_more_fits_when_the_whole_queue_is_seen() -> None:
    pending = queue(6, 4, 5, 5)
    assert len(both(*pending, group=GROUP).placements) == 3
    outcome = both(*pending)
    assert len(outcome.placements) == 4 and not outcome.waits
    assert any(
        one.choice and "packed with the whole queue" in one.choice.detail for one in outcome.placements
    )
    used = next(use for use in outcome.groups if use.group == "main")
    assert (used.before["cpu"], used.after["cpu"]) == (0, 20_000)


def test_who_was_placed_stays_placed_even_where_others_would_be_worth_more() -> None:
    pending = (session("first", cpu=6, gpus=1), session("large", cpu=10, gpus=4, enqueued=1))
    outcome = both(*pending, nodes=1)
    assert placed(outcome) == {"first"}
    assert {reason.code for wait in outcome.waits for reason in wait.reasons} == {"no-capacity"}


def test_gangs_keep_their_nodes() -> None:
    gang = session("gang", cpu=1, gpus=1, kernels=2, multi_node=True)
    outcome = both(gang, *queue(5, 4, 4, 5))
    assert placed(outcome) == {"gang", "s0", "s1", "s2", "s3"}


def test_a_bounded_queue_is_passed_over_no_more_than_it_allows() -> None:
    strict = dataclasses.replace(WHOLE, queue_options={"maxSkips": 0})
    outcome = both(session("awkward", cpu=10, gpus=3), *queue(6, 4, 5), nodes=1, group=strict)
    assert placed(outcome) == {"awkward"}


def test_quotas_hold() -> None:
    quota = QuotaLimit("q", "project", "p", slots={"cpu": 15_000})
    pending = tuple(dataclasses.replace(one, project="p") for one in queue(6, 4, 5, 5))
    assert len(both(*pending, quotas=(quota,)).placements) == 3


def test_without_or_tools_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "planner.batch.cutting_stock", None)
    outcome = both(*queue(6, 4, 5, 5))
    assert len(outcome.placements) == 3
    assert any("bai[batch]" in text for text in outcome.warnings)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_never_fewer_and_never_wrong(snapshot: Snapshot) -> None:
    groups = tuple(dataclasses.replace(group, packing="whole-queue") for group in snapshot.groups)
    whole = dataclasses.replace(snapshot, groups=groups)
    outcome = place(whole)
    audit(whole, outcome)
    assert placed(outcome) >= placed(place(snapshot))
    assert outcome == place(whole)
