"""A terminal of its own for a command, joined to the caller's."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import IO

from providers import terminal
from providers.signals import handling

_END_OF_INPUT = b"\x04"


def run(helper: list[str], source: int, tell: Callable[[], None], stdin: IO[bytes] | None) -> int:
    """Run the helper on a new terminal until it ends; its exit code. `tell` is called once it is started."""
    ours, theirs = pty.openpty()
    outside = _outside(stdin)
    _copy_size(outside, ours)
    process = subprocess.Popen(helper, env={}, stdin=theirs, stdout=theirs, stderr=theirs, pass_fds=(source,))
    os.close(theirs)
    tell()
    try:
        sizes = handling([signal.SIGWINCH], lambda *_: _copy_size(outside, ours))
        with terminal.raw(outside), sizes:
            if stdin is not None and outside is None:
                os.write(ours, stdin.read() + _END_OF_INPUT)
            _relay(ours, outside)
    finally:
        os.close(ours)
    code = process.wait()
    return code if code >= 0 else 128 - code


def _outside(stdin: IO[bytes] | None) -> int | None:
    """Where input comes from: the given stream, or our own standard input when it is open."""
    if stdin is not None:
        return terminal.outside(stdin)
    try:
        os.fstat(0)
        return 0
    except OSError:
        return None


def _relay(ours: int, outside: int | None) -> None:
    """Bytes both ways until the command's side closes."""
    reading = [ours] if outside is None else [ours, outside]
    while True:
        ready = select.select(reading, [], [])[0]
        if ours in ready and not _pass(ours, sys.stdout.fileno()):
            return
        if outside in ready and outside is not None and not _pass(outside, ours):
            reading = [ours]
            os.write(ours, _END_OF_INPUT)


def _pass(source: int, target: int) -> bool:
    try:
        data = os.read(source, 1 << 14)
    except OSError:
        return False
    terminal.write_all(target, data)
    return bool(data)


def _copy_size(outside: int | None, ours: int) -> None:
    if outside is None or not os.isatty(outside):
        return
    size = fcntl.ioctl(outside, termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, size)
