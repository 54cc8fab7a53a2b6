"""A terminal of its own for a command: joined to the caller's, or as a value."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from typing import IO

from providers.machines import terminal
from providers.machines.remote_terminal import RemoteTerminal
from providers.machines.signals import signal_handlers
from providers.process.interaction import relay
from schemas.problems.errors.provider import ProviderError

_END_OF_INPUT = b"\x04"
HANGING_UP = 3.0
"""Seconds in which a command ends whose terminal is gone, before it is killed."""


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


def open_on_terminal(
    start: Callable[[int], subprocess.Popen[bytes]], size: tuple[int, int]
) -> RemoteTerminal:
    """Start a command on a new terminal, whose end it is given."""
    ours, theirs = pty.openpty()
    try:
        far = _Terminal(ours)
        far.resize(*size)
        process = start(theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return RemoteTerminal(
        far,
        far.chunks(),
        exit_code=lambda: far.code_of(process),
        finish=lambda: far.hang_up(process),
        errors=_terminal_errors,
    )


@contextlib.contextmanager
def _terminal_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ProviderError(provider="process", why=f"the terminal is gone: {error.strerror}") from error


class _Terminal:
    """`terminal.RemoteEnd` of a command here, by the other end of its terminal."""

    def __init__(self, ours: int) -> None:
        self._ours = ours
        self._left = os.eventfd(0, os.EFD_CLOEXEC)
        os.set_blocking(ours, False)

    def send(self, data: bytes) -> None:
        while data and self._wait(self._ours, select.POLLOUT):
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self._ours, data) :]

    def end(self) -> None:
        self.send(_END_OF_INPUT)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def leave(self) -> None:
        os.eventfd_write(self._left, 1)

    def chunks(self) -> Iterator[bytes]:
        while self._wait(self._ours, select.POLLIN):
            try:
                data = os.read(self._ours, 1 << 14)
            except BlockingIOError:
                continue
            except OSError:  # That is how a terminal tells that nobody has it open any more.
                return
            yield data

    def code_of(self, process: subprocess.Popen[bytes]) -> int | None:
        """None when it was left before the command had ended."""
        ended = os.pidfd_open(process.pid)
        try:
            if not self._wait(ended, select.POLLIN):
                return None
        finally:
            os.close(ended)
        code = process.wait()
        return code if code >= 0 else 128 - code

    def hang_up(self, process: subprocess.Popen[bytes]) -> None:
        """Without its other end the terminal hangs up its programs."""
        os.close(self._ours)
        os.close(self._left)
        try:
            process.wait(HANGING_UP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self, descriptor: int, event: int) -> bool:
        """Until that has happened; False when it was left."""
        poller = select.poll()
        poller.register(descriptor, event)
        poller.register(self._left, select.POLLIN)
        return self._left not in dict(poller.poll())
