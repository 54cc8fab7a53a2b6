"""A kernel's processes are found by their mark, whatever they are doing while they are looked for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.process.linux import procfs
from tests.waiting import until

LOOKS = 100


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """Of a kernel all of whose processes end with the test."""
    yield str(tmp_path)
    assert procfs.kill_until_gone([str(tmp_path)], os.getpid())


def begin(mark: str, *argv: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, env={**os.environ, procfs.MARKER: mark}, start_new_session=True)


def test_who_becomes_another_program_again_and_again_is_found(tmp_path: Path, mark: str) -> None:
    """Without an environment for a sixth of its time, which no look may take for its end."""
    program = tmp_path / "again"
    program.write_text('#!/bin/sh\nexec "$0"\n')
    program.chmod(0o755)
    with begin(mark, program) as process:
        try:
            assert [procfs.marked(mark) for _ in range(LOOKS)] == [[process.pid]] * LOOKS
            assert procfs.kill_until_gone([mark], os.getpid())
            assert process.wait(5) < 0
        finally:
            process.kill()


def test_who_was_forked_while_others_were_listed_is_found(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one that has ended when it is looked at."""
    listed = procfs.pids()
    with begin(mark, "sleep", "60") as process:
        try:
            listings = iter([listed])
            pids = procfs.pids
            monkeypatch.setattr(procfs, "pids", lambda: next(listings, None) or pids())
            assert procfs.marked(mark) == [process.pid]
        finally:
            process.kill()


def test_who_has_no_environment_holds_nobody_up(mark: str) -> None:
    """An empty one is one: it is not waited for; nor are threads of the kernel and what is not awaited."""
    with begin(mark, "env", "-i", "sleep", "60") as process, begin(mark, "true") as ended:
        try:
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
            name = Path(f"/proc/{process.pid}/comm")
            until(lambda: name.read_text() == "sleep\n", "it has no environment any more")
            assert procfs.marked(mark, seconds=float("inf")) == []
        finally:
            process.kill()
