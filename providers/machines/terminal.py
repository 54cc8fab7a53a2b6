"""The caller's keyboard and terminal, joined to a program that runs elsewhere.

What is typed goes to a `RemoteEnd` from a thread of its own, window sizes too; the detach keys hang up. Raw
mode and signal handlers are put back however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import threading
import tty as modes
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Protocol

from providers.machines.signals import signal_handlers
from schemas.problems.errors.base import BaiError

CTRL_P, CTRL_Q = b"\x10", b"\x11"
CHUNK = 1 << 14


def readable(descriptors: Iterable[int]) -> list[int]:
    """Those that can be read, or have ended, once any can. Descriptors may be larger than select(2) takes."""
    poller = select.poll()
    for each in descriptors:
        poller.register(each, select.POLLIN)
    return [descriptor for descriptor, _ in poller.poll()]


class RemoteEnd(Protocol):
    """The far end of what is typed. Methods may raise OSError and ProviderError when it is gone."""

    def send(self, data: bytes) -> None: ...

    def end(self) -> None:
        """There is no more input."""
        ...

    def resize(self, rows: int, columns: int) -> None: ...

    def leave(self) -> None:
        """Hang up, so that whoever reads its output sees the end."""
        ...


class DetachKeys:
    """Finds Ctrl-P Ctrl-Q in what is typed. A Ctrl-P is held back until the next key shows what was meant."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What to pass on, and whether the keys were typed (the rest is dropped then)."""
        data = self._held + data
        typed, found, _ = data.partition(CTRL_P + CTRL_Q)
        if found:
            self._held = b""
            return typed, True
        self._held = CTRL_P if data.endswith(CTRL_P) else b""
        return data[: len(data) - len(self._held)], False


class InputForwarder:
    """What is typed, on its way to `far`. `detached` once the detach keys were found."""

    def __init__(self, far: RemoteEnd, stdin: IO[bytes] | None, *, tty: bool, keys: bool) -> None:
        self.detached = False
        self._far = far
        self._keys = DetachKeys() if keys else None
        self._stdin = stdin
        self._source = input_descriptor(stdin)
        self._sizes = tty
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        if self._sizes:
            self.resized()

    def resized(self) -> None:
        """The window has another size now."""
        self._wake_up(b"r")

    def finish(self) -> None:
        self._wake_up(b"q")
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            os.close(self._wake)
            os.close(self._waker)

    def _wake_up(self, note: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._waker, note)

    def _run(self) -> None:
        with contextlib.suppress(OSError, BaiError):
            if self._source is None:
                self._far.send(self._stdin.read() if self._stdin else b"")
                self._far.end()
            self._pump()

    def _pump(self) -> None:
        reading = [self._wake] if self._source is None else [self._wake, self._source]
        while True:
            ready = readable(reading)
            if self._wake in ready:
                notes = os.read(self._wake, 1024)
                if b"q" in notes:
                    return
                self._resize()
            if self._source in ready and not self._pass_on_input():
                if self.detached:
                    return
                reading = [self._wake]
                self._far.end()

    def _pass_on_input(self) -> bool:
        """One read's worth; False at the end of input, or when the detach keys came."""
        assert self._source is not None
        data = os.read(self._source, CHUNK)
        if not data:
            return False
        if self._keys:
            data, self.detached = self._keys.feed(data)
        if data:
            self._far.send(data)
        if self.detached:
            self._far.leave()
        return not self.detached

    def _resize(self) -> None:
        size = window_size(self._source)
        if size is not None:
            with contextlib.suppress(OSError, BaiError):
                self._far.resize(*size)


@contextlib.contextmanager
def forward_input(
    far: RemoteEnd, stdin: IO[bytes] | None, *, tty: bool, keys: bool = False
) -> Iterator[InputForwarder]:
    """While it lasts, what is typed goes to `far`.

    `stdin` None: nothing is typed, unless `tty`. `tty`: the terminal is raw and its size is followed. `keys`:
    the detach keys count.
    """
    typed = InputForwarder(far, stdin, tty=tty, keys=keys)
    source = input_descriptor(stdin)
    sizes = signal_handlers([signal.SIGWINCH] if tty else [], lambda *_: typed.resized())
    with raw_mode(source if tty else None), sizes:
        typed.start()
        try:
            yield typed
        finally:
            typed.finish()


def input_descriptor(stdin: IO[bytes] | None) -> int | None:
    """The descriptor that input comes from; None when the stream has none."""
    try:
        return stdin.fileno() if stdin is not None else None
    except (OSError, ValueError, AttributeError):
        return None


def window_size(descriptor: int | None) -> tuple[int, int] | None:
    """Rows and columns; None where there is no terminal (or one that does not say)."""
    try:
        rows, columns, _, _ = struct.unpack(
            "HHHH", fcntl.ioctl(0 if descriptor is None else descriptor, termios.TIOCGWINSZ, b"\0" * 8)
        )
    except OSError:
        return None
    return (rows, columns) if rows and columns else None


def write_all(descriptor: int, data: bytes) -> None:
    """All of it, to a descriptor that may take less at a time."""
    while data:
        data = data[os.write(descriptor, data) :]


def write_output(chunks: Iterator[bytes]) -> None:
    """Output as it comes, on the caller's standard output."""
    for data in chunks:
        write_all(sys.stdout.fileno(), data)


@contextlib.contextmanager
def raw_mode(descriptor: int | None) -> Iterator[None]:
    """Every key goes through as it is, while this lasts; nothing is changed where there is no terminal."""
    if descriptor is None or not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    # Who is terminated, or loses the terminal, puts it in order first.
    with signal_handlers((signal.SIGTERM, signal.SIGHUP), lambda got, _: sys.exit(128 + got)):
        try:
            modes.setraw(descriptor, termios.TCSADRAIN)  # What was typed ahead is kept.
            yield
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def forward_interrupts(pass_on: Callable[[], None]) -> Iterator[None]:
    """While it lasts, an interrupt (SIGINT) calls `pass_on` in a thread of its own, and breaks nothing off
    here: an exception could come between receiving a piece of output and showing it.

    Interrupts that were ignored before, as of a job in the background, stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    wake, waker = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(waker, False)

    def run() -> None:
        with open(wake, "rb", buffering=0) as notes:
            while notes.read(1):
                pass_on()

    def interrupted(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(waker, b"i")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        with signal_handlers([signal.SIGINT], interrupted):
            yield
    finally:
        os.close(waker)
        thread.join(timeout=5)
