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


def _descendants() -> list[int]:
    """Process ids of all below this one."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(name))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


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
        for process in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
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
