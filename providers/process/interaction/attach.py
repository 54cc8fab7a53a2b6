"""The caller's terminal on a kernel's main process: through the supervisor's socket where the kernel has a
terminal, otherwise its output only."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

from providers.machines import terminal
from providers.machines.terminals.remote_terminal import RemoteTerminal
from providers.process.supervision import logfile, observe
from providers.process.supervision.console import NAME, SIZE, frame
from schemas.problems.errors.kernel import NoTerminal, NotRunning
from schemas.problems.errors.provider import ProviderUnavailable

if TYPE_CHECKING:
    from providers.process.supervision.records import KernelRecord

_LONGEST = 1 << 14
PATIENCE = 30.0
"""Seconds for an exit code to be written after the terminal closed."""


def attach(record: KernelRecord, reread: Callable[[], KernelRecord], stdin: IO[bytes] | None) -> int:
    """The main process's exit code, or 0 when detached. Raises NotRunning, ProviderUnavailable."""
    if not record.runs:
        raise NotRunning(provider="process", kernel=record.id)
    try:
        ended = _relay_terminal(record, stdin) if record.spec.tty else _show_output(record)
    except KeyboardInterrupt:
        return 0
    return _exit_code(reread) or 0 if ended else 0


def open_terminal(
    record: KernelRecord, reread: Callable[[], KernelRecord], size: tuple[int, int]
) -> RemoteTerminal:
    """Raises NotRunning, NoTerminal, ProviderUnavailable."""
    if not record.runs:
        raise NotRunning(provider="process", kernel=record.id)
    if not record.spec.tty:
        raise NoTerminal(provider="process", kernel=record.id, hint="`tty: true` gives it one")
    stream = _connect(record)
    far = _Supervisor(stream)
    far.redraw(size)
    return RemoteTerminal(
        far,
        _receive_all(stream),
        exit_code=lambda: _exit_code(reread),
        finish=stream.close,
        errors=lambda: _socket_errors(record.id),
    )


@contextlib.contextmanager
def _socket_errors(kernel: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = f"the terminal of {kernel} does not answer: {error.strerror}"
        raise ProviderUnavailable(provider="process", why=why) from error


def _show_output(record: KernelRecord) -> bool:
    folder = str(record.folder / "logs")
    terminal.write_output(logfile.output(folder, lambda: record.alive, follow=True, tail=0))
    return True


def _relay_terminal(record: KernelRecord, stdin: IO[bytes] | None) -> bool:
    """False when the detach keys were typed."""
    stream = _connect(record)
    far = _Supervisor(stream)
    with contextlib.closing(stream), terminal.forward_input(far, stdin, tty=True, keys=True) as typed:
        far.redraw(terminal.window_size(terminal.input_descriptor(stdin)))
        terminal.write_output(_receive_all(stream))
    return not typed.detached


def _connect(record: KernelRecord) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(record.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        stream.connect(f"/proc/self/fd/{folder}/{NAME}")
    except OSError as error:
        stream.close()
        why = f"the terminal of {record.id} does not answer: {error.strerror}"
        raise ProviderUnavailable(provider="process", why=why) from error
    finally:
        os.close(folder)
    return stream


class _Supervisor:
    """`terminal.RemoteEnd` over the socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._whole_frames = threading.Lock()

    def send(self, data: bytes) -> None:
        for at in range(0, len(data), _LONGEST):
            self._send_frame(b"i", data[at : at + _LONGEST])

    def end(self) -> None:
        """A terminal stays open when nobody types."""

    def resize(self, rows: int, columns: int) -> None:
        self._send_frame(b"w", SIZE.pack(rows, columns))

    def redraw(self, size: tuple[int, int] | None) -> None:
        """Programs that fill the screen draw it anew when its size changes."""
        if size is not None:
            self.resize(size[0] + 1, size[1])
            self.resize(*size)

    def leave(self) -> None:
        self._stream.shutdown(socket.SHUT_RDWR)

    def _send_frame(self, kind: bytes, text: bytes) -> None:
        with self._whole_frames:
            self._stream.sendall(frame(kind, text))


def _receive_all(stream: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(ConnectionError):
        while data := stream.recv(1 << 16):
            yield data


def _exit_code(reread: Callable[[], KernelRecord]) -> int | None:
    """None where it goes on: then only its terminal has ended."""
    deadline = time.monotonic() + PATIENCE
    while (record := reread()).alive and time.monotonic() < deadline:
        time.sleep(0.02)
    return None if record.alive else observe.observe_record(record).exit_code
