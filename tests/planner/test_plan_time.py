"""Whoever asks for the time says until when the answer holds."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf

import pytest

from planner.model.plan_time import PlanTime

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC).timestamp()


def test_who_asks_nothing_waits_for_nothing() -> None:
    assert PlanTime(NOON).valid_until == inf


def test_what_has_come_stays() -> None:
    time = PlanTime(100.0)
    assert time.passed(100.0) and time.passed(0.0) and time.after(99.9)
    assert time.valid_until == inf


def test_the_earliest_of_all_that_is_to_come_counts() -> None:
    time = PlanTime(100.0)
    assert not time.passed(300.0) and not time.passed(200.0) and not time.after(250.0)
    assert time.valid_until == 200.0


def test_later_than_this_very_moment() -> None:
    time = PlanTime(100.0)
    assert not time.after(100.0)
    assert time.valid_until == 100.0


def test_who_computes_with_it_is_right_for_a_moment() -> None:
    time = PlanTime(100.0)
    assert time.exactly() == 100.0 == time.valid_until


@pytest.mark.parametrize(("now", "until"), [(NOON, MIDNIGHT), (MIDNIGHT, MIDNIGHT + 86_400), (1e300, 1e300)])
def test_who_reads_the_day_is_right_until_midnight(now: float, until: float) -> None:
    time = PlanTime(now)
    assert time.to_the_day() == now
    assert time.valid_until == until


def test_what_others_say() -> None:
    time = PlanTime(100.0)
    time.expires(150.0)
    time.expires(180.0)
    assert time.valid_until == 150.0
