"""Numbers and names in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bai.render.humanize import (
    ascii_only,
    clean,
    duration,
    format_milli,
    iso_time,
    join_limited,
    number_ranges,
    plural,
    short_name,
    size,
    slot_amounts,
    truncate_around_difference,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (5, "5B"),
        (1024, "1KiB"),
        (1536, "1.5KiB"),
        (64 << 30, "64GiB"),
        (1 << 50, "1PiB"),
        (150 * 1024 + 512, "150KiB"),
    ],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (500, "0.5"), (16_000, "16"), (1_250, "1.25"), (1, "0.001")]
)
def test_thousandths(milli: int, text: str) -> None:
    assert format_milli(milli) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (310, "5m10s"), (3600, "1h"), (273_600, "3d4h"), (-5, "0s")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_slots_leave_zeroes_out() -> None:
    assert (
        slot_amounts({"mem": 1 << 30, "cpu": 500, "cuda.device": 0, "cuda.shares": 250})
        == "cpu 0.5, cuda.shares 0.25, mem 1GiB"
    )


def test_small_words() -> None:
    assert plural(1, "session") == "1 session" and plural(2, "process", "processes") == "2 processes"
    assert join_limited(range(8), 6) == "0, 1, 2, 3, 4, 5 and 2 more"
    assert short_name("Session/vision/llama") == "vision/llama" and short_name("odd") == "odd"
    assert iso_time(None) == "" and iso_time(0) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([0, 1, 2, 5], "0-2, 5"),
        (["mlx5_0", "mlx5_1", "mlx5_3"], "mlx5_0-1, mlx5_3"),
        (["GPU-a", "GPU-b"], "GPU-a, GPU-b"),
        (["x01", "x02"], "x01, x02"),
        ([3, 1, 2], "3, 1-2"),
        ([], ""),
    ],
)
def test_ranges(names: list[object], text: str) -> None:
    assert number_ranges(names) == text


@given(st.text())
def test_clean_text_has_no_control_characters(text: str) -> None:
    assert not any(
        ord(char) < 32 or 127 <= ord(char) < 160 or char in "\u202e\u2066\u200b" for char in clean(text)
    )


@given(st.text(), st.integers(4, 40))
def test_clean_keeps_to_its_limit(text: str, limit: int) -> None:
    assert len(clean(text, limit)) <= limit


@given(st.text(), st.text(), st.text(), st.integers(20, 60))
def test_a_difference_is_seen_wherever_it_is(same: str, old: str, new: str, limit: int) -> None:
    before, after = truncate_around_difference(same + old, same + new, limit)
    assert max(len(before), len(after)) <= limit
    assert (before == after) == (clean(same + old) == clean(same + new))


@given(st.text())
def test_ascii_only_is(text: str) -> None:
    assert ascii_only(text).isascii()


def test_times_beyond_the_calendar_are_not_told() -> None:
    assert iso_time(253_402_300_799.9) == "9999-12-31T23:59:59Z"
    assert [iso_time(253_402_300_800), iso_time(1e30), iso_time(-1.0), iso_time(None)] == [""] * 4
