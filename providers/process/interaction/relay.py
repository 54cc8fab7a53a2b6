"""A command's standard streams joined to the caller's through pipes: the command never holds one of the
caller's own files, terminals or sockets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from providers.machines import terminal
from providers.machines.signals import signal_handlers

_CHUNK = 1 << 16


def run_with_pipes(start: Callable[[int], subprocess.Popen[bytes]], stdin: IO[bytes] | None) -> int:
    """The command's exit code. `start` is told where errors go: `subprocess.PIPE`, or `STDOUT` where both
    lead to the same place here, so that they keep their order.

    A terminal's interrupts are passed on; who is terminated or loses the terminal tells the command.
    """
    with contextlib.ExitStack() as stack:
        begun = stack.enter_context(_forward_signals())
        process = start(subprocess.STDOUT if _same_file(1, 2) else subprocess.PIPE)
        stack.callback(_close, process)
        begun(process)
        _Relay(process, stdin).run()
        code = process.wait()
    return code if code >= 0 else 128 - code


def input_source(stdin: IO[bytes] | None) -> int | None:
    """Where input comes from: the given stream, or our own standard input when it is open."""
    if stdin is not None:
        return terminal.input_descriptor(stdin)
    try:
        os.fstat(0)
        return 0
    except OSError:
        return None


@contextlib.contextmanager
def _forward_signals() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """While it lasts, signals reach the command, which is in no group of the caller's terminal: those that
    come before it has begun, which is told, reach it then. What is ignored here, as with nohup, stays so."""
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def handle(number: int) -> None:
        if not started:
            early.append(number)
            return
        for process in started:
            if process.returncode is None:  # After its end, its number is somebody else's.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
        if number != signal.SIGINT:
            sys.exit(128 + number)

    def begin(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        for number in early:
            handle(number)

    def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
        return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]

    numbers = not_ignored([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    with signal_handlers(numbers, lambda number, _: handle(number)):
        yield begin


def _same_file(one: int, other: int) -> bool:
    try:
        return os.path.samestat(os.fstat(one), os.fstat(other))
    except OSError:
        return False


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


class _Relay:
    """What is typed waits here until the command takes it; output is shown at once."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: IO[bytes] | None) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self._outputs = {process.stdout.fileno(): 1}
        if process.stderr is not None:
            self._outputs[process.stderr.fileno()] = 2
        for descriptor in (process.stdin.fileno(), *self._outputs):
            os.set_blocking(descriptor, False)
        self._input: int | None = process.stdin.fileno()
        self._source = input_source(stdin)
        self._pending = stdin.read() if stdin is not None and self._source is None else b""

    def run(self) -> None:
        ended = os.pidfd_open(self._process.pid)
        try:
            while not self._step(ended):
                pass
        finally:
            os.close(ended)
        # What it left running may keep the pipes open, and write on: what is there already is shown.
        for descriptor in list(self._outputs):
            (left,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
            while left > 0 and self._show(descriptor):
                left -= _CHUNK

    def _step(self, ended: int) -> bool:
        """Wait for something to do and do it; True when the command has ended."""
        self._end_input_when_sent()
        poller = select.poll()
        poller.register(ended, select.POLLIN)
        for descriptor in self._outputs:
            poller.register(descriptor, select.POLLIN)
        if self._input is not None:
            poller.register(self._input, select.POLLOUT if self._pending else 0)
            if self._source is not None and not self._pending:
                poller.register(self._source, select.POLLIN)
        ready = dict(poller.poll())
        if self._input in ready:
            self._write_input() if self._pending else self._hang_up()
        if self._source in ready and self._source is not None:
            self._read_input()
        for descriptor in [each for each in self._outputs if each in ready]:
            self._show(descriptor)
        return ended in ready

    def _end_input_when_sent(self) -> None:
        """The end of what is typed is told when all of it has arrived."""
        if self._input is not None and self._source is None and not self._pending:
            self._hang_up()

    def _hang_up(self) -> None:
        assert self._process.stdin is not None
        self._input, self._pending, self._source = None, b"", None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _write_input(self) -> None:
        assert self._input is not None
        try:
            self._pending = self._pending[os.write(self._input, self._pending) :]
        except BlockingIOError:
            return
        except OSError:
            self._hang_up()

    def _read_input(self) -> None:
        assert self._source is not None
        try:
            self._pending = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal that is another job's now
            self._pending = b""
        if not self._pending:
            self._source = None

    def _show(self, descriptor: int) -> bool:
        """One read's worth; False when there is none now, or nobody reads it here."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if data and _write_all(self._outputs[descriptor], data):
            return True
        # The command is told by its pipe, as it would be without us.
        del self._outputs[descriptor]
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed and stream.fileno() == descriptor:
                stream.close()
        return False


def _write_all(target: int, data: bytes) -> bool:
    while data:
        try:
            data = data[os.write(target, data) :]
        except BlockingIOError:
            poller = select.poll()
            poller.register(target, select.POLLOUT)
            poller.poll()
        except OSError:
            return False
    return True
