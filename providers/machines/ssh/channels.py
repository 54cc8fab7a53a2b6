"""Channels of a connection as streams and processes."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator
from shutil import get_terminal_size

import paramiko

from providers.machines.base import LARGEST, Done
from schemas.problems.errors.node import NodeUnreachable

CHUNK = 1 << 16
_NUDGE = 0.02
"""Seconds between looks while the far side takes no more input."""


def await_readable(channel: paramiko.Channel, seconds: float) -> None:
    """Wait until the channel has something to read, or has ended. Not `select`, which knows no descriptor
    above 1023."""
    watched = select.poll()
    watched.register(channel.fileno(), select.POLLIN)
    watched.poll(max(0.0, seconds) * 1000)


class ChannelStream:
    """A channel with the methods of a socket; `closed` is called once, when it is let go. `rested` hears when
    nothing is under way on it, so that its connection may be closed, and when something is again."""

    def __init__(
        self,
        channel: paramiko.Channel,
        closed: Callable[[], None],
        rested: Callable[[bool], None] = lambda resting: None,
    ) -> None:
        self._channel = channel
        self._closed: Callable[[], None] | None = closed
        self._rested = rested
        self._resting = False

    def recv(self, size: int, /) -> bytes:
        return self._channel.recv(size)

    def sendall(self, data: bytes, /) -> None:
        self._channel.sendall(data)

    def shutdown(self, how: int, /) -> None:
        self._channel.shutdown(how)

    def settimeout(self, seconds: float | None, /) -> None:
        self._channel.settimeout(seconds)

    def fileno(self) -> int:
        return self._channel.fileno()

    def rest(self, resting: bool) -> None:
        if resting != self._resting:
            self._resting = resting
            self._rested(resting)

    def close(self) -> None:
        self.rest(False)
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()


class ChannelProcess:
    """A command that runs on a channel. `kill` ends it where letting go of the channel does not."""

    def __init__(
        self,
        channel: paramiko.Channel,
        node: str,
        closed: Callable[[], None],
        kill: Callable[[], None] = lambda: None,
    ) -> None:
        self._channel = channel
        self._kill = kill
        self._node = node
        self._stream = ChannelStream(channel, closed)
        self._errors = bytearray()

    def write(self, data: bytes) -> None:
        self._channel.sendall(data)

    def close_stdin(self) -> None:
        self._channel.shutdown_write()

    def read(self) -> Iterator[bytes]:
        while True:
            # What is said as an error is taken meanwhile: a window that fills up would stop the far side.
            self.errors()
            if self._channel.recv_ready() or self._channel.eof_received or self._channel.closed:
                data = self._channel.recv(CHUNK)
                if not data:
                    return
                yield data
            else:
                await_readable(self._channel, 1.0)

    def errors(self) -> bytes:
        while self._channel.recv_stderr_ready():
            self._errors += self._channel.recv_stderr(CHUNK)
        del self._errors[:-CHUNK]
        return bytes(self._errors)

    def resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(paramiko.SSHException, OSError):
            self._channel.resize_pty(width=columns, height=rows)

    def wait(self) -> int:
        code = self._channel.recv_exit_status()
        if code < 0:
            raise NodeUnreachable(node=self._node, why="the connection was lost while a command ran")
        return code

    def close(self) -> None:
        if not self._channel.exit_status_ready():
            self._kill()
        self._stream.close()


def first_line(channel: paramiko.Channel, deadline: float) -> bytes:
    """What a command says first, without the end of the line; what follows stays to be read. Shorter when it
    ends, or the deadline comes, before."""
    line = b""
    while time.monotonic() < deadline and len(line) < CHUNK:
        if channel.recv_ready() or channel.eof_received or channel.closed:
            byte = channel.recv(1)
            if byte in (b"", b"\n"):
                return line
            line += byte
        else:
            await_readable(channel, 1.0)
    return line


def request_terminal(channel: paramiko.Channel) -> None:
    """Ask for a terminal like the caller's."""
    size = get_terminal_size()
    channel.get_pty(os.environ.get("TERM", "xterm"), width=size.columns, height=size.lines)


class OutputTooLarge(Exception):
    """A command said more than `LARGEST`."""


def communicate(channel: paramiko.Channel, stdin: bytes, deadline: float) -> Done | None:
    """Feed a command and collect what it says, until `deadline` on the monotonic clock; None when the
    connection broke before it ended. One without input must not wait for the end of it.

    Raises TimeoutError, OutputTooLarge.
    """
    rest = memoryview(stdin)
    out, err = bytearray(), bytearray()
    while True:
        rest, moved = _send_some(channel, rest)
        moved |= _receive_some(channel, out, err)
        if not moved:
            if channel.closed or channel.eof_received:
                _receive_some(channel, out, err)
                break
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            await_readable(channel, min(left, _NUDGE) if rest else left)
    code = _exit_status(channel, deadline)
    return None if code is None else Done(code, bytes(out), bytes(err))


def _send_some(channel: paramiko.Channel, rest: memoryview) -> tuple[memoryview, bool]:
    if not rest or channel.closed or not channel.send_ready():
        return rest, False
    try:
        rest = rest[channel.send(rest[:CHUNK].tobytes()) :]
    except OSError:
        return memoryview(b""), True  # it reads no more, and may still have something to say
    if not rest:
        channel.shutdown_write()
    return rest, True


def _receive_some(channel: paramiko.Channel, out: bytearray, err: bytearray) -> bool:
    before = len(out) + len(err)
    while channel.recv_ready() and len(out) <= LARGEST:
        out += channel.recv(CHUNK)
    while channel.recv_stderr_ready() and len(err) <= LARGEST:
        err += channel.recv_stderr(CHUNK)
    if len(out) + len(err) > LARGEST:
        raise OutputTooLarge
    return len(out) + len(err) > before


def _exit_status(channel: paramiko.Channel, deadline: float) -> int | None:
    """What the far side said last; -1 is paramiko's word for a channel that ended without it."""
    if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
        raise TimeoutError
    code = channel.exit_status
    return code if code >= 0 else None
