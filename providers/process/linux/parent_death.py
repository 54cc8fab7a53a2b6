"""Ending with one's parent, however that ends. Cheap imports only.

    python parent_death.py PID_OF_THE_PARENT COMMAND...

becomes a command that does so: for who has threads, and can run nothing between fork and exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET, _GET = 1, 2
"""PR_SET_PDEATHSIG, PR_GET_PDEATHSIG"""


def end_with_parent(parent: int) -> None:
    """From now on this process is killed when `parent`, which forked it, ends; at once if it has ended.

    That holds beyond exec, not for what this process forks, and not any more when it becomes another user.
    """
    ctypes.CDLL(None).prctl(_SET, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def ends_with_parent() -> bool:
    number = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(_GET, ctypes.byref(number), 0, 0, 0)
    return number.value != 0


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
