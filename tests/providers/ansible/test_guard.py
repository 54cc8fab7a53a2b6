"""Nothing of a run outlives it, or bai: real processes in sessions of their own, as Ansible makes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from providers.ansible.run import GUARD, _CancelCheck
from tests.harness.processes import having
from tests.waiting import until

PATIENCE = 120.0
# A worker in a session of its own, a connection that makes itself a daemon, and one that heeds no SIGTERM.
COMMAND = """
import os, signal, subprocess, sys, time
mark, seconds = sys.argv[1:]
sleep = [sys.executable, "-c", "import time; time.sleep(600)", mark]
subprocess.Popen(sleep, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execv(sys.executable, sleep)
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(float(seconds))
sys.exit(3)
"""
# Starts the guard as bai does, and waits.
STARTER = "import os, subprocess, sys; subprocess.run([*sys.argv[1:3], str(os.getpid()), *sys.argv[3:]])"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "secret").write_text("sesame")
    return tmp_path / "scratch"


def started(scratch: Path, seconds: str = "600") -> subprocess.Popen[str]:
    """The guard below a starter, once its command runs."""
    command = [sys.executable, "-c", COMMAND, str(scratch), seconds]
    argv = [sys.executable, "-c", STARTER, sys.executable, str(GUARD), str(scratch), *command]
    starter = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert starter.stdout is not None
    assert starter.stdout.readline() == "ready\n"
    return starter


def guard_of(scratch: Path) -> int:
    return int((scratch / "pid").read_text())


def test_all_ends_with_the_command(scratch: Path) -> None:
    starter = started(scratch, "0")
    assert starter.wait(PATIENCE) == 0
    assert having(str(scratch)) == {}
    assert not scratch.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_all_ends_when_it_is_told_to(scratch: Path, number: signal.Signals) -> None:
    starter = started(scratch)
    os.kill(guard_of(scratch), number)
    starter.wait(PATIENCE)
    assert having(str(scratch)) == {}
    assert not scratch.exists()


def test_all_ends_with_a_starter_that_is_killed(scratch: Path) -> None:
    starter = started(scratch)
    assert having(str(scratch))
    starter.kill()
    starter.wait(PATIENCE)
    until(lambda: not having(str(scratch)) and not scratch.exists())


@pytest.mark.parametrize(
    ("stop", "limit", "why"), [(True, 600.0, "stopped"), (False, 0.0, "not finished within 0 s")]
)
def test_a_run_ends_when_it_is_stopped_or_takes_too_long(
    scratch: Path, stop: bool, limit: float, why: str
) -> None:
    starter = started(scratch)
    ending = _CancelCheck(scratch, lambda: stop, time.monotonic() + limit, limit)
    assert ending() is False  # the runner is to wait for the guard
    assert ending.why == why
    starter.wait(PATIENCE)
    assert having(str(scratch)) == {}
    assert ending() is False  # asked again when there is nobody any more


def test_its_exit_code_is_the_commands(scratch: Path) -> None:
    argv = [sys.executable, str(GUARD), str(os.getpid()), str(scratch), "sh", "-c", "exit 7"]
    assert subprocess.run(argv, check=False, stdin=subprocess.DEVNULL).returncode == 7


def test_it_does_not_begin_for_another_starter(scratch: Path, tmp_path: Path) -> None:
    argv = [sys.executable, str(GUARD), "1", str(scratch), "touch", str(tmp_path / "done")]
    assert subprocess.run(argv, check=False, stdin=subprocess.DEVNULL).returncode == 130
    assert not (tmp_path / "done").exists()
