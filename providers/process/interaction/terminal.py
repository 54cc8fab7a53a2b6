"""A terminal of its own for a command, joined to the caller's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import IO

from providers.machines import terminal
from providers.machines.signals import signal_handlers
from providers.process.interaction import relay

_END_OF_INPUT = b"\x04"


def run_on_terminal(start: Callable[[int], subprocess.Popen[bytes]], stdin: IO[bytes] | None) -> int:
    """Start a command on a new terminal, whose end it is given, and wait for it; its exit code."""
    ours, theirs = pty.openpty()
    outside = relay.input_source(stdin)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, ours)
        with contextlib.ExitStack() as beginning:
            beginning.callback(os.close, theirs)
            _copy_size(outside, ours)
            # Before the command begins: what is typed from now on is for it, interrupts as well.
            stack.enter_context(terminal.raw_mode(outside))
            sizes = signal_handlers([signal.SIGWINCH], lambda *_: _copy_size(outside, ours))
            stack.enter_context(sizes)
            process = start(theirs)
        if stdin is not None and outside is None:
            os.write(ours, stdin.read() + _END_OF_INPUT)
        _relay(ours, outside)
    code = process.wait()
    return code if code >= 0 else 128 - code


def _relay(ours: int, outside: int | None) -> None:
    """Bytes both ways until the command's side closes."""
    reading = [ours] if outside is None else [ours, outside]
    while True:
        ready = terminal.readable(reading)
        if ours in ready and not _copy_bytes(ours, sys.stdout.fileno()):
            return
        if outside in ready and outside is not None and not _copy_bytes(outside, ours):
            reading = [ours]
            os.write(ours, _END_OF_INPUT)


def _copy_bytes(source: int, target: int) -> bool:
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
