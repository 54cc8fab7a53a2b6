"""Packing within its limits: a slow solver holds up no plan, and what ends it is said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from planner.batch import cutting_stock, repack
from planner.batch.cutting_stock import pack
from planner.batch.greedy import Bins, insert_greedily, largest_first
from planner.batch.master_problem import Columns, choose_fills
from planner.batch.pricing import Pricing
from planner.batch.time_limit import PackingTime, TimeLimit
from planner.batch.values import Effort, NodeClass, RequestClass
from planner.model.types import Outcome, Snapshot
from planner.place import place
from tests.planner.audit import audit
from tests.planner.support import BUILT_IN, node
from tests.planner.test_repack import GROUP, SMALL, WHOLE, placed, queue

KINDS = [NodeClass(gpus=4, cpu=16, memory=99, count=4)]
REQUESTS = [RequestClass(cpu, 1, 1, 1000, count, 1000) for cpu, count in ((9, 4), (5, 6), (3, 4))]
LIMITED = dataclasses.replace(WHOLE, packing_time_limit=7)


class Hours:
    """A clock that goes on by an hour for each fill that a solver looks for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.solved = 0
        best_fill = Pricing.best_fill

        def slow(*asked: object) -> object:
            self.solved += 1
            return best_fill(*asked)  # type: ignore[arg-type]

        monkeypatch.setattr(Pricing, "best_fill", slow)

    def __call__(self) -> float:
        return 3600.0 * self.solved


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(monkeypatch)


def greedy() -> int:
    bins = Bins(KINDS, 4, 1)
    order = [(at, REQUESTS[at].count) for at in largest_first(REQUESTS)]
    return sum(insert_greedily(bins, REQUESTS, order))


def test_after_its_limit_a_packing_solves_nothing_more(clock: Hours) -> None:
    limit = TimeLimit(60, clock)
    found = pack(KINDS, REQUESTS, limit=limit)
    assert clock.solved == 1 and limit.reached
    assert sum(found.placed) >= greedy()


def test_a_limit_that_is_over_leaves_the_greedy_packing(clock: Hours) -> None:
    limit = TimeLimit(0, clock)
    assert sum(pack(KINDS, REQUESTS, limit=limit).placed) >= greedy()
    assert clock.solved == 0 and limit.reached


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    limit = TimeLimit(60, lambda: 0.0)
    assert pack(KINDS, REQUESTS, limit=limit) == pack(KINDS, REQUESTS)
    assert not limit.reached


@pytest.mark.parametrize("effort", [Effort(pricing=0), Effort(rounds=0)])
def test_without_work_to_do_the_answer_is_no_worse_than_greedy(clock: Hours, effort: Effort) -> None:
    assert sum(pack(KINDS, REQUESTS, effort).placed) >= greedy()
    assert clock.solved == 0


def test_thousands_of_different_requests_are_no_more_work_than_hundreds() -> None:
    def work(count: int) -> int:
        requests = [RequestClass(100 + at, 10**6 - at, 1, 1000, 1, 1000 + at) for at in range(count)]
        pricing = Pricing(requests)
        fill = pricing.best_fill(
            NodeClass(8, 10**5, 10**8, 1), np.array([one.value for one in requests], float)
        )
        assert sum(fill.values()) == 8
        return pricing.work

    assert work(6000) <= work(1000)


def test_the_integer_program_is_not_begun_after_the_limit() -> None:
    columns = Columns(KINDS, REQUESTS)
    assert columns.add(0, {0: 1, 1: 1})
    assert choose_fills(columns, 300, TimeLimit(60, lambda: 0.0))
    assert not choose_fills(columns, 300, TimeLimit(0, lambda: 0.0))


def world(*cores: int, group: object = LIMITED) -> Snapshot:
    members = tuple(node(f"n{at}", SMALL) for at in range(2))
    return Snapshot(members, (group,), pending=queue(*cores))  # type: ignore[arg-type]


def placed_at(now: Callable[[], float], snapshot: Snapshot) -> Outcome:
    outcome = place(snapshot, BUILT_IN, PackingTime(now))
    audit(snapshot, outcome)
    return outcome


def test_a_plan_says_that_its_packing_was_cut_short(clock: Hours) -> None:
    snapshot = world(6, 4, 5, 5)
    outcome = placed_at(clock, snapshot)
    assert clock.solved == 1
    assert placed(outcome) >= placed(place(world(6, 4, 5, 5, group=GROUP), BUILT_IN))
    [warning] = [text for text in outcome.warnings if "packingTimeLimit of 7 s" in text]
    assert warning.startswith("group main: ")


def test_a_plan_that_had_the_time_says_nothing_and_is_the_one_without_a_clock() -> None:
    snapshot = world(6, 4, 5, 5)
    outcome = placed_at(lambda: 1e9, snapshot)
    assert outcome == place(snapshot, BUILT_IN)
    assert len(outcome.placements) == 4 and not outcome.warnings


def test_the_calls_for_one_plan_share_its_time(clock: Hours) -> None:
    time = PackingTime(clock)
    for _ in range(3):
        outcome = place(world(6, 4, 5, 5), BUILT_IN, time)
        assert any("packingTimeLimit" in text for text in outcome.warnings)
    assert clock.solved == 1


def test_the_work_goes_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = pack

    def asked(nodes: object, requests: object, effort: Effort, *more: object) -> object:
        seen.append(effort.pricing)
        return original(nodes, requests, effort, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(cutting_stock, "pack", asked)
    for seconds in (1, 60):
        group = dataclasses.replace(WHOLE, packing_time_limit=seconds)
        place(world(6, 4, 5, 5, group=group), BUILT_IN)
    assert seen[1] == 60 * seen[0] > 0


def test_where_nothing_starts_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise AssertionError("it was asked to pack")

    monkeypatch.setattr(repack, "_node_classes", fail)
    first = place(world(10, 10, group=GROUP), BUILT_IN)
    running = [repack.Running(one, at, 0.0) for one, at in zip(queue(10, 10), first.placements, strict=True)]
    waiting = dataclasses.replace(world(), running=tuple(running), pending=queue(10, 10, 3)[2:])
    outcome = place(waiting, BUILT_IN)
    assert not outcome.placements and len(outcome.waits) == 1
