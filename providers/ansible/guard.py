"""Runs a command such that nothing of it is left, whatever becomes of who started it.

    python guard.py PID_OF_THE_STARTER FOLDER COMMAND...

It adopts all that the command starts (Ansible's workers and its ssh connections have sessions of their
own), and ends it when the command ends, when it is told to (SIGTERM, SIGINT, SIGHUP), or when its starter
dies. Then the folder, which holds secrets, is deleted. Its process id is in the folder's file `pid`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STOPPED = 130
_TERMINATE_PATIENCE = 2.0
"""Seconds between being asked to end and being made to."""


class _SignalReceived(Exception):
    """A signal came."""


def _on_signal(_number: int, _frame: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise _SignalReceived


def _stat(process: int) -> tuple[int, int]:
    """Its parent, and when it began, in ticks after the boot; zeros where it is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0, 0


def _descendants() -> dict[int, int]:
    """Process ids of all below this one, and when each began."""
    below: dict[int, dict[int, int]] = {}
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        parent, began = _stat(process)
        below.setdefault(parent, {})[process] = began
    found: dict[int, int] = {}
    waiting = [os.getpid()]
    while waiting:
        children = below.get(waiting.pop(), {})
        found.update(children)
        waiting += children
    return found


def _send(process: int, began: int, number: int) -> None:
    """A signal to exactly this process: its number may be another one's by now."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process)
        try:
            if _stat(process)[1] == began:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _reap_ended() -> bool:
    """Take leave of those that ended; whether there may be others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _end_descendants() -> None:
    """End everything below, gently first."""
    deadline = time.monotonic() + _TERMINATE_PATIENCE
    number = signal.SIGTERM
    while _reap_ended():
        for process, began in _descendants().items():
            _send(process, began, number)
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        time.sleep(0.05)


def _wait(child: int) -> int:
    while True:
        process, status = os.waitpid(-1, 0)
        if process == child:
            return os.waitstatus_to_exitcode(status)


def main() -> int:
    starter, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _on_signal)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != starter:
            return STOPPED
        with open(os.path.join(folder, "pid"), "w") as file:
            file.write(str(os.getpid()))
        child = os.posix_spawnp(command[0], command, os.environ)
        code = _wait(child)
        return code if code >= 0 else 128 - code
    except _SignalReceived:
        return STOPPED
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _end_descendants()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
