"""The planner is asked again only for another snapshot, or once a moment has come that its answer waited for.
`tests/simulation` compares each plan with one that is made anew."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

import planner.place
from planner.model.types import GroupInfo, KernelRequest, Outcome, SessionRequest, Snapshot
from reconciler.plan.place.known_outcomes import KnownOutcomes
from tests.reconciler.lab import Lab, session

NOW = 1_780_000_000.0


def asking(*names: str, **group: object) -> Snapshot:
    """A snapshot of one group in which these sessions wait."""
    pending = tuple(SessionRequest(name, "g", (KernelRequest("main1", "main", 1, {}),)) for name in names)
    return Snapshot((), (GroupInfo("g", **group),), pending=pending, now=NOW)


class Asked:
    """A planner that notes what it is asked."""

    def __init__(self, valid_until: float = inf) -> None:
        self.valid_until = valid_until
        self.times: list[float] = []

    def __call__(self, snapshot: Snapshot) -> Outcome:
        self.times.append(snapshot.now)
        return Outcome((), (), valid_until=self.valid_until)


def test_an_equal_snapshot_has_the_same_outcome() -> None:
    asked = Asked()
    place = KnownOutcomes().planner(asked)
    first = place(asking("a", "b"))
    assert place(replace(asking("a", "b"), now=NOW + 5)) is first
    assert asked.times == [NOW]
    assert place(asking("a", "c")) is not first and len(asked.times) == 2


def test_until_the_moment_that_it_waits_for() -> None:
    asked = Asked(NOW + 60)
    place = KnownOutcomes().planner(asked)
    for after in (0.0, 59.9, 60.0, 61.0, 62.0):
        place(replace(asking("a"), now=NOW + after))
    assert asked.times == [NOW, NOW + 60, NOW + 61, NOW + 62]


def test_not_for_a_time_before_it() -> None:
    asked = Asked()
    place = KnownOutcomes().planner(asked)
    place(asking("a"))
    place(replace(asking("a"), now=NOW - 1))
    assert asked.times == [NOW, NOW - 1]


def test_several_snapshots_of_one_plan_are_known() -> None:
    asked = Asked()
    place = KnownOutcomes().planner(asked)
    for _ in range(3):
        for name in "abcd":
            place(asking(name))
    assert len(asked.times) == 4
    place(asking("e"))
    place(asking("a"))
    assert len(asked.times) == 6


def test_another_planner_is_asked_itself() -> None:
    known, first, second = KnownOutcomes(), Asked(), Asked()
    for place in (first, second, first, second):
        known.planner(place)(asking("a"))
    assert len(first.times) == len(second.times) == 1


def test_what_is_packed_by_the_clock_may_be_packed_better_next_time() -> None:
    asked = Asked()
    place = KnownOutcomes().planner(asked)
    for _ in range(2):
        place(asking("a", packing="whole-queue"))
    assert len(asked.times) == 2


def test_a_session_that_is_put_into_its_queue_costs_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass that queues it has told what it waits for; the next one finds it on record: that is all."""
    asked: list[Snapshot] = []
    really = planner.place._place_as_queued

    def counted(snapshot: Snapshot, *more: object) -> Outcome:
        asked.append(snapshot)
        return really(snapshot, *more)

    monkeypatch.setattr(planner.place, "_place_as_queued", counted)
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "resources: {cuda.device: 2}")})
    lab.converge()
    lab.apply()
    lab.write({"b": session("b", "resources: {cuda.device: 2}")})
    asked.clear()
    queued = lab.plan()
    assert [each.session for each in queued.waits] == ["Session/p/b"] and len(asked) == 1
    lab.apply(queued)
    after = lab.plan()
    assert not after.changes and after.waits == queued.waits and len(asked) == 1
    lab.world.clock.sleep(3600.0)
    lab.apply()
    assert not lab.plan().changes and len(asked) == 1
