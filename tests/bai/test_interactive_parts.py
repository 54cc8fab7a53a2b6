"""The parts of the interactive commands that need no session: keys, tables, times, names."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bai.cli.completion import session_names
from bai.cli.sessions.interleaved_output import interleaved_lines, sequential_lines, split_lines
from bai.cli.sessions.transfer import SessionPath, parse_session_path
from bai.cli.time_arguments import parse_time
from bai.render.analysis.top_rows import (
    COLUMNS,
    UsageRow,
    sort_by_session,
    usage_cells,
    usage_json,
    usage_rows,
)
from bai.render.analysis.top_table import LiveTable, fitting_columns
from providers.abilities import GpuUsage, Usage
from providers.base import Labels
from providers.machines.terminal import DetachKeys
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.provider import ProviderError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

# keys


@given(st.lists(st.sampled_from([b"\x10", b"\x11", b"a", b"bc\x10", b"\x11d"]), max_size=12))
def test_keys_are_found_however_they_are_cut(pieces: list[bytes]) -> None:
    keys = DetachKeys()
    passed, found = b"", False
    for piece in pieces:
        text, found = keys.feed(piece)
        passed += text
        if found:
            break
    whole = b"".join(pieces)
    assert found == (b"\x10\x11" in whole)
    if found:
        assert passed == whole.partition(b"\x10\x11")[0]
    else:
        assert passed == (whole[:-1] if whole.endswith(b"\x10") else whole)


# tables


def label(session: str, kernel: str = "main1", node: str = "n1") -> Labels:
    return Labels("repo", "here", f"Session/p/{session}", 1, "d", kernel, node)


def use(kernel: str, seconds: float, cpu: float, **fields: object) -> Usage:
    return Usage(kernel, NOW + timedelta(seconds=seconds), cpu_seconds=cpu, **fields)  # type: ignore[arg-type]


SENT = {"network_in": 3048, "network_out": 5000}


def two_samples() -> list[UsageRow]:
    gpus: Mapping[str, GpuUsage] = {"GPU-1": GpuUsage(50, 1 << 30), "GPU-2": GpuUsage(100, 2 << 30)}
    labels = {"a": label("solo"), "b": label("pair"), "c": label("pair", "sub1", "n2"), "d": label("new")}
    before = {
        "a": use("a", 0, 10.0, network_in=1000, network_out=5000),
        "b": use("b", 0, 1.0),
        "c": use("c", 0, 1.0),
        "x": use("x", 0, 0.0),
    }
    after = {
        "a": use(
            "a", 2, 10.5, memory=1 << 20, memory_limit=1 << 30, network_in=3048, network_out=5000, pids=3
        ),
        "b": use("b", 2, 3.0, memory=950 << 20, memory_limit=1 << 30, gpus=gpus),
        "c": use("c", 2, 0.5, memory=1 << 30, memory_limit=1 << 31, pids=9),
        "d": use("d", 2, 7.0, memory=5),
        "x": use("x", 2, 7.0),
    }
    return usage_rows(before, after, labels)


SHOWN = """\
p/pair all 2 nodes 100 1.9GiB 3GiB - - 9 75.0 3GiB
p/pair main1 n1 100 950MiB 1GiB - - - 75.0 3GiB
p/pair sub1 n2 - 1GiB 2GiB - - 9 - -
p/solo main1 n1 25.0 1MiB 1GiB 1KiB/s 0/s 3 - -
p/new main1 n1 - 5B - - - - - -
"""


def test_rates_come_from_two_samples_and_sums_lead_their_session() -> None:
    found = sort_by_session(two_samples(), "cpu")
    assert "".join(" ".join(cell or "-" for cell in usage_cells(row)) + "\n" for row in found) == SHOWN


@pytest.mark.parametrize(
    ("sort", "first"), [("memory", "pair"), ("network", "solo"), ("gpu", "pair"), ("name", "new")]
)
def test_the_order_is_what_is_asked_for(sort: str, first: str) -> None:
    assert sort_by_session(two_samples(), sort)[0].session == f"Session/p/{first}"


def test_json_has_every_value_and_null_for_what_is_not_known() -> None:
    found = {row.session + row.kernel: usage_json(row) for row in two_samples()}
    assert found["Session/p/solomain1"]["networkInPerSecond"] == 1024.0
    assert found["Session/p/pairsub1"]["cpuPercent"] is None
    assert found["Session/p/pairmain1"]["gpus"] == 2
    json.dumps(list(found.values()))


def test_the_live_table_fits_the_terminal() -> None:
    for width, height in ((40, 5), (80, 4), (200, 50)):
        options = {"width": width, "height": height, "force_terminal": True, "no_color": True}
        console = Console(file=io.StringIO(), **options)  # type: ignore[arg-type]
        with console.capture() as capture:
            console.print(LiveTable(two_samples(), "cpu"))
        text = capture.get().splitlines()
        assert len(text) <= height and "p/pair" in capture.get()
        assert ("more line" in text[-1]) == (height < 8)
    assert fitting_columns([], 500) == list(range(len(COLUMNS)))
    assert [COLUMNS[at] for at in fitting_columns([], 1)] == ["session", "kernel", "cpu %"]


# output


def test_lines_are_whole_whatever_the_chunks() -> None:
    assert list(split_lines([b"on", b"e\ntw", b"o\n\nthree"])) == [b"one", b"two", b"", b"three"]
    assert list(split_lines([])) == []
    parts = {"main1": iter([b"a\nb\n"]), "sub1": iter([b"c\n"])}
    assert list(sequential_lines(parts)) == [("main1", b"a"), ("main1", b"b"), ("sub1", b"c")]
    parts = {"main1": iter([b"a\nb\n"]), "sub1": iter([b"c\n"])}
    assert sorted(interleaved_lines(parts)) == [("main1", b"a"), ("main1", b"b"), ("sub1", b"c")]


def test_a_failure_of_one_output_is_raised() -> None:
    def broken() -> Iterator[bytes]:
        yield b"a\n"
        raise ProviderError(provider="x", why="gone")

    with pytest.raises(ProviderError):
        list(interleaved_lines({"main1": broken()}))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("1d2h3m4s", NOW - timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("2026-01-30T12:00:00Z", NOW - timedelta(days=1)),
        ("2026-01-31T13:00:00+01:00", NOW),
        ("2026-01-31T12:00:00", NOW),
        ("2026-01-31", NOW - timedelta(hours=12)),
    ],
)
def test_times_as_a_person_writes_them(text: str, meant: datetime) -> None:
    assert parse_time(text, NOW.timestamp()) == meant


@pytest.mark.parametrize("text", ["", "yesterday", "10", "99999999d", "10x", "2026-13-01"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(CommandError, match="is neither a time nor a duration"):
        parse_time(text, NOW.timestamp())


# names


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("lab:/data", SessionPath("lab", "/data")),
        ("vision/llama/sub1:x:y", SessionPath("vision/llama/sub1", "x:y")),
        ("lab:", SessionPath("lab", ".")),
        ("./a:b", None),
        ("/a:b", None),
        ("plain", None),
        ("-", None),
        (":x", None),
    ],
)
def test_which_side_is_a_session(text: str, meant: SessionPath | None) -> None:
    assert parse_session_path(text) == meant


def test_completion_reads_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    assert session_names(store) == []
    store.write_text("this is no database")
    assert session_names(store) == []
    store.unlink()
    pair = json.dumps({"spec": {"cluster": {"roles": {"main": 1, "sub": 2}}}})
    with sqlite3.connect(store) as connection:
        connection.execute("CREATE TABLE resources (resource TEXT, kernels TEXT, document TEXT)")
        for name, kernels, document in (
            ("Session/a/same", '["x"]', "{}"),
            ("Session/b/same", '["x"]', "{}"),
            ("Session/b/pair", '["x", "y", "z"]', pair),
            ("Node/n1", "[]", "{}"),
        ):
            connection.execute("INSERT INTO resources VALUES (?, ?, ?)", (name, kernels, document))
    assert session_names(store) == ["a/same", "pair", "pair/main1", "pair/sub1", "pair/sub2", "b/same"]
