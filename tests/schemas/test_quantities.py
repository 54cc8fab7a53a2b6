"""Amounts: what people write, what is held, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.hardware.cpuset import format_cpus, parse_cpus
from schemas.values import quantities as q

STEADY = settings(deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512MiB", 512 << 20),
        ("64GiB", 64 << 30),
        ("1TB", 10**12),
        ("1.5GiB", 3 << 29),
        ("2 GB", 2 * 10**9),
        ("0B", 0),
        (1024, 1024),
    ],
)
def test_memory(text: object, value: int) -> None:
    assert q.parse_memory(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("64G", "did you mean 64GiB"),
        ("64gb", "did you mean 64GiB"),
        ("64Gi", "did you mean 64GiB"),
        ("1.5B", "whole number of bytes"),
        ("64 apples", "1024"),
        ("1e9", "not an amount"),
        ("٣GiB", "not an amount"),
        (-1, "out of range"),
        (True, "not an amount"),
        (None, "not an amount"),
        (1.5, "not an amount"),
        ("64GiB\n", "not an amount"),
        ("99999999999PiB", "out of range"),
    ],
)
def test_memory_refused(text: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        q.parse_memory(text)


@pytest.mark.parametrize(
    ("text", "value"), [(16, 16_000), (1.5, 1_500), ("500m", 500), ("2", 2_000), (0.001, 1), ("0.25", 250)]
)
def test_cpu(text: object, value: int) -> None:
    assert q.parse_cpu(text) == value


@pytest.mark.parametrize("text", ["", "m", "1.5m", "0.0001", -1, True, None, [], "1e3", 1e-9, 10**20, "16 "])
def test_cpu_refused(text: object) -> None:
    with pytest.raises(ValueError, match="cores"):
        q.parse_cpu(text)


def test_only_whole_cores_are_exclusive() -> None:
    assert q.is_exclusive(q.parse_cpu(2))
    assert q.is_exclusive(q.parse_cpu("2000m"))
    assert not q.is_exclusive(q.parse_cpu(1.5))
    assert not q.is_exclusive(0)


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("1h30m", 5400), ("2d", 172_800), ("1w1s", 604_801)]
)
def test_duration(text: str, value: int) -> None:
    assert q.parse_duration(text) == value


@pytest.mark.parametrize("text", ["", "30", "1m1h", "h", "-1s", "1.5h", "1h 30m", 30, 1.5, None, True])
def test_duration_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration|unit"):
        q.parse_duration(text)


def test_a_number_without_unit_is_told_its_unit() -> None:
    with pytest.raises(ValueError, match="did you mean 30s"):
        q.parse_duration(30)


@pytest.mark.parametrize("text", ["5", "101%", "5.5%", "-1%", 5, None, "%"])
def test_percent_refused(text: object) -> None:
    with pytest.raises(ValueError, match="percentage"):
        q.parse_percent(text)


def test_timestamps_need_a_time_zone() -> None:
    assert q.parse_timestamp("2026-12-01T01:00:00+01:00") == datetime(2026, 12, 1, tzinfo=UTC)
    for text in ("2026-12-01", "2026-12-01T00:00:00", "2026-02-30T00:00:00Z", 5, None):
        with pytest.raises(ValueError, match="time zone"):
            q.parse_timestamp(text)


AMOUNTS = st.integers(0, q.BIGGEST)


@pytest.mark.parametrize(
    ("parse", "write", "amounts"),
    [
        (q.parse_memory, q.format_memory, AMOUNTS),
        (q.parse_cpu, q.format_cpu, st.integers(0, 10**11)),
        (q.parse_shares, q.format_shares, st.integers(0, 10**9)),
        (q.parse_duration, q.format_duration, st.integers(0, 10**12)),
    ],
)
def test_written_amounts_read_the_same(
    parse: Callable[[object], int], write: Callable[[int], object], amounts: st.SearchStrategy[int]
) -> None:
    @STEADY
    @given(amounts)
    def check(amount: int) -> None:
        assert parse(write(amount)) == amount

    check()


@STEADY
@given(st.decimals(0, 10**6, places=3))
def test_shares_are_exact(share: Decimal) -> None:
    assert q.parse_shares(float(share)) == int(share * 1000) == q.parse_shares(f"{share:f}")


@STEADY
@given(st.integers(1, 10**5), st.sampled_from(["KiB", "MiB", "GiB", "kB", "MB", "GB"]))
def test_the_shortest_text_is_never_longer(number: int, unit: str) -> None:
    text = f"{number}{unit}"
    assert len(q.format_memory(q.parse_memory(text))) <= len(text)


@STEADY
@given(
    st.one_of(
        st.text(max_size=20), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.integers())
    )
)
def test_anything_else_is_refused_in_words(value: object) -> None:
    for parse in (
        q.parse_memory,
        q.parse_cpu,
        q.parse_shares,
        q.parse_duration,
        q.parse_percent,
        q.parse_timestamp,
    ):
        try:
            parse(value)
        except ValueError as error:
            assert str(error)


@STEADY
@given(st.sets(st.integers(0, 65_535), max_size=200))
def test_cpu_lists_read_the_same(cpus: set[int]) -> None:
    assert parse_cpus(format_cpus(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "0-99999999", "1,,x", "65536"])
def test_cpu_lists_refused(text: str) -> None:
    with pytest.raises(ValueError, match="CPU"):
        parse_cpus(text)
