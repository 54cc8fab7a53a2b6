"""A kernel's processes are found by their mark, whatever they are doing while they are looked for."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from providers.conformance.waiting import PATIENCE
from providers.process.linux import procfs
from tests.waiting import until

LOOKS = 100


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """Of a kernel all of whose processes end with the test."""
    yield str(tmp_path)
    assert procfs.kill_until_gone([str(tmp_path)], os.getpid())


@contextlib.contextmanager
def begun(mark: str, *argv: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, procfs.MARKER: mark}
    with subprocess.Popen(argv, env=environment, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_who_becomes_another_program_again_and_again_is_found(tmp_path: Path, mark: str) -> None:
    """Without an environment for a sixth of its time, which no look may take for its end."""
    program = tmp_path / "again"
    program.write_text('#!/bin/sh\nexec "$0"\n')
    program.chmod(0o755)
    with begun(mark, program) as process:
        assert [procfs.marked(mark) for _ in range(LOOKS)] == [[process.pid]] * LOOKS
        assert procfs.kill_until_gone([mark], os.getpid())
        assert process.wait(PATIENCE) < 0


def test_who_was_forked_while_others_were_listed_is_found(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one that has ended when it is looked at."""
    pids = procfs.pids
    listings = iter([pids()])
    with begun(mark, "sleep", "60") as process:
        monkeypatch.setattr(procfs, "pids", lambda: next(listings, None) or pids())
        assert procfs.marked(mark) == [process.pid]


def test_who_forks_for_ever_holds_nobody_up(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each listing has somebody new, who has ended when he is looked at."""
    numbers = itertools.count(2**22 + 1)  # No process has a number above PID_MAX_LIMIT.
    monkeypatch.setattr(procfs, "pids", lambda: [next(numbers)])
    assert procfs.marked(mark, seconds=0.02) == []


def test_a_machine_that_stood_still_has_left_no_time_and_he_is_found(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He was becoming another program just then."""
    read, looks = procfs._environment, iter([b"", b""])
    clock = itertools.count(0.0, 1000.0)
    with begun(mark, "sleep", "60") as process:
        monkeypatch.setattr(procfs, "_stat", lambda pid: [pid])
        monkeypatch.setattr(procfs, "_becomes_program", lambda fields: fields == [process.pid])
        monkeypatch.setattr(
            procfs, "_environment", lambda pid: next(looks, read(pid)) if pid == process.pid else read(pid)
        )
        monkeypatch.setattr(procfs, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=time.sleep))
        assert procfs.marked(mark) == [process.pid]


def test_who_has_no_environment_holds_nobody_up(mark: str) -> None:
    """An empty one is one: it is not waited for; nor are threads of the kernel and what is not awaited."""
    with begun(mark, "env", "-i", "sleep", "60") as process, begun(mark, "true") as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        name = Path(f"/proc/{process.pid}/comm")
        until(lambda: name.read_text() == "sleep\n", "it has no environment any more")
        assert procfs.marked(mark, seconds=float("inf")) == []
