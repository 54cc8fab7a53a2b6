"""The helper that becomes a command inside a kernel. Cheap imports only."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import termios

from providers.process import cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def become(descriptor: int) -> NoReturn:
    """Read the order from the pipe until its end, then be that command.

    Exit codes: 127 not found, 126 cannot be run, 125 no order came.
    """
    with os.fdopen(descriptor, "rb") as stream:
        text = stream.read()
    if not text:
        sys.exit(125)
    order = json.loads(text)
    try:
        if order["tty"]:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        cgroup.join(order["groups"])
        os.sched_setaffinity(0, order["affinity"])
        if order["cwd"]:
            os.chdir(order["cwd"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except OSError as error:
        print(f"{error.filename or order['argv'][0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
