"""What an API server says, understood without any."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.kubernetes.interaction.channels import STDOUT, Channels
from providers.kubernetes.interaction.container_state import container_state
from providers.kubernetes.interaction.execute import Outcome, parse_outcome
from providers.kubernetes.interaction.forward import explain_refusal
from providers.kubernetes.interaction.log_cursor import LogCursor, StampedLines
from providers.machines.files.tar_command import first_complaint, pack_command, unpack_command
from schemas.problems.errors.provider import ProviderError

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


# logs


def stamped(records: list[tuple[int, bytes]]) -> list[tuple[datetime, bytes]]:
    """Lines with the time that the kubelet puts before them; times in nanoseconds after `BEGAN`."""
    made = []
    for nanoseconds, text in records:
        moment = BEGAN + timedelta(seconds=nanoseconds // 10**9)
        stamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds % 10**9:09d}Z "
        made.append((moment, stamp.encode() + text + b"\n"))
    return made


def answer(lines: list[tuple[datetime, bytes]], cursor: LogCursor) -> bytes:
    """As the API does: from a whole second on."""
    since = datetime.fromisoformat(cursor.since) if cursor.since else BEGAN
    return b"".join(line for moment, line in lines if moment >= since)


RECORDS = st.lists(
    st.tuples(st.integers(0, 3 * 10**9) | st.sampled_from([0, 10**9, 10**9 + 1]), st.binary(max_size=60)),
    min_size=1,
    max_size=12,
).map(lambda found: sorted(((at, text.replace(b"\n", b"-")) for at, text in found), key=lambda each: each[0]))


@given(RECORDS, st.lists(st.integers(0, 400), max_size=5), st.integers(1, 50))
def test_output_is_whole_wherever_and_however_often_it_breaks_off(
    records: list[tuple[int, bytes]], breaks: list[int], size: int
) -> None:
    lines = stamped(records)
    cursor, got = LogCursor(), b""
    for much in [*breaks, 10**6]:
        data = answer(lines, cursor)[:much]
        reader = StampedLines(cursor)
        for start in range(0, len(data), size):
            got += reader.feed(data[start : start + size])
    assert got == b"".join(text + b"\n" for _, text in records)


def test_a_time_to_begin_at_is_exact() -> None:
    cursor = LogCursor(BEGAN + timedelta(microseconds=5))
    said = answer(stamped([(0, b"before"), (5000, b"at"), (5001, b"after")]), cursor)
    assert StampedLines(cursor).feed(said) == b"at\nafter\n"


def test_zones_and_fractions_are_understood() -> None:
    cursor = LogCursor()
    reader = StampedLines(cursor)
    assert reader.feed(b"2026-01-01T13:00:00.5+01:00 a\n2026-01-01T12:00:01Z b\n") == b"a\nb\n"
    assert cursor.since == "2026-01-01T12:00:01Z"


def test_what_comes_before_the_first_time_is_not_output() -> None:
    reader = StampedLines(LogCursor())
    assert reader.feed(b"unable to retrieve container logs for containerd://0123456789abcdef") == b""
    reader = StampedLines(LogCursor())
    assert reader.feed(b"the end of a line\n2026-01-01T12:00:00Z 2026-01-01T12:00:00Z x") == (
        b"2026-01-01T12:00:00Z x"
    )


# commands


def test_how_a_command_ended() -> None:
    causes = {"details": {"causes": [{"reason": "ExitCode", "message": "6"}]}, "status": "Failure"}
    assert parse_outcome(json.dumps(causes).encode()) == Outcome(6)
    assert parse_outcome(b'{"status":"Success"}') == Outcome(0)
    why = 'error executing command: OCI runtime exec failed: exec: "x": not found'
    outcome = parse_outcome(json.dumps({"status": "Failure", "message": why}).encode())
    assert outcome == Outcome(None, why.removeprefix("error executing command: "))


@pytest.mark.parametrize(
    "said", [b"", b"{", b"5", b"[]", b'{"details": 5}', b'{"details": {"causes": [{"reason": "ExitCode"}]}}']
)
def test_an_end_without_an_exit_code_is_a_lost_connection(said: bytes) -> None:
    with pytest.raises(ProviderError, match="may still run"):
        parse_outcome(said)


class Broken:
    """A connection that is reset once these messages have come."""

    def __init__(self, *messages: bytes) -> None:
        self.left = list(messages)
        self.leave = self.close = lambda: None

    def receive(self) -> bytes:
        if not self.left:
            raise ConnectionResetError("the connection broke off")
        return self.left.pop(0)


def test_a_connection_that_is_reset_after_the_end_was_told_is_no_matter() -> None:
    """As by a command that has not read all of its input."""
    channels = Channels(Broken(b"\1out", b'\3{"status":', b'\3"Success"}'))  # type: ignore[arg-type]
    assert list(channels.frames()) == [(STDOUT, b"out")]
    assert parse_outcome(channels.status) == Outcome(0)
    for said in ((), (b'\3{"status":',), (b"\3null",)):
        with pytest.raises(ConnectionResetError):
            list(Channels(Broken(*said)).frames())  # type: ignore[arg-type]


def test_what_a_server_says_is_said_to_whom_it_concerns() -> None:
    with pytest.raises(ProviderError, match="the node is on fire"):
        parse_outcome(b'{"status": "Failure", "message": "the node is on fire"}')


# pods


def test_a_container_that_is_begun_anew_remembers_its_last_run() -> None:
    pod: dict[str, Any] = {
        "metadata": {"resourceVersion": "7"},
        "spec": {"containers": [{"name": "other", "tty": True}, {"name": "main"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "main",
                    "restartCount": 2,
                    "containerID": "containerd://b",
                    "state": {"running": {}},
                    "lastState": {"terminated": {"containerID": "containerd://a", "exitCode": 4}},
                }
            ],
        },
    }
    state = container_state(pod)
    assert (state.running, state.began, state.over, state.tty) == (True, True, False, False)
    assert (state.run, state.restarts, state.version) == ("containerd://b", 2, "7")
    assert state.exit_codes == {"containerd://a": 4}


@pytest.mark.parametrize(
    ("status", "over"), [({}, False), ({"phase": "Pending"}, False), ({"phase": "Failed"}, True)]
)
def test_a_pod_without_a_container_yet(status: dict[str, Any], over: bool) -> None:
    state = container_state({"status": status})
    assert (state.running, state.began, state.over, state.exit_codes) == (False, False, over, {})


# files and ports


@pytest.mark.parametrize(
    ("path", "folder", "name"),
    [
        ("/a/b", "/a", "b"),
        ("/a/b/", "/a/b/", "."),
        ("/a/.", "/a/.", "."),
        ("/", "/", "."),
        ("./-x", ".", "-x"),
    ],
)
def test_what_tar_is_asked_for(path: str, folder: str, name: str) -> None:
    assert pack_command(path) == ("tar", "-C", folder, "-cf", "-", "--", name)
    assert unpack_command(path)[:3] == ("tar", "-C", path)


def test_what_tar_complains_about() -> None:
    assert first_complaint(b"\ntar: x: not there\nmore\n", 1) == "x: not there"
    assert first_complaint(b"", 2) == "tar ended with 2"
    assert first_complaint(b"\x1b[2J\n", 1) == "\\u001b[2J"


def test_why_a_port_is_refused() -> None:
    assert explain_refusal("... dial tcp4 127.0.0.1:1: connect: connection refused ...") == (
        "nothing listens on it"
    )
    assert explain_refusal("no\x1bpe\n") == "no\\u001bpe"


def test_who_only_plans_loads_no_websockets() -> None:
    text = (
        "import sys, providers.kubernetes.interaction.interaction\n"
        "sys.exit(any(name.split('.')[0] in ('websockets', 'urllib3') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0
