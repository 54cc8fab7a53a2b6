"""A kernel's terminal: kept by the supervisor, joined through a socket to whoever attaches. Cheap imports.

A client sends frames (`i`: what is typed, `w`: rows and columns), each a letter, a length of two bytes and
the text; it gets the bare output. Output waits for a client that is slow, as it does for any terminal; one
that takes nothing for a while is let go. Typed text waits until the program reads it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios
import time

NAME = "console"
HEAD = struct.Struct(">cH")
SIZE = struct.Struct(">HH")
MOST_BEHIND = 1 << 20
"""Bytes that a client may be behind before output waits for it."""
PATIENCE = 10.0
"""Seconds for which output waits for a client that takes nothing of it."""
MOST_TYPED = 1 << 16

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


def frame(kind: bytes, text: bytes) -> bytes:
    return HEAD.pack(kind, len(text)) + text


class Client:
    """One who is attached: what it sent and was not read yet, and what it did not take yet."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.sent = b""
        self.behind = b""
        self.took = time.monotonic()
        """When it last took something, or had nothing to take."""

    def frames(self) -> list[tuple[bytes, bytes]]:
        found = []
        while len(self.sent) >= HEAD.size:
            kind, length = HEAD.unpack_from(self.sent)
            end = HEAD.size + length
            if len(self.sent) < end:
                break
            found.append((kind, self.sent[HEAD.size : end]))
            self.sent = self.sent[end:]
        return found

    def push(self) -> bool:
        """Give it what it takes; False when it is gone."""
        try:
            while self.behind:
                self.behind = self.behind[self.stream.send(self.behind) :]
                self.took = time.monotonic()
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.took = time.monotonic()
        return True

    def is_slow(self) -> bool:
        return len(self.behind) > MOST_BEHIND


class Console:
    """The terminal, anew for every run of the main process, and its clients."""

    def __init__(self, folder: str) -> None:
        import socket

        self._place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, NAME))
        # A socket's path is short; the folder's is not.
        self._listener.bind(f"/proc/self/fd/{self._place}/{NAME}")
        self._listener.listen(16)
        self._clients: dict[int, Client] = {}
        self._typed = b""
        self._size = (24, 80)
        self._ends = (-1, -1)

    def renew(self) -> tuple[int, int]:
        """A fresh terminal: our end and the program's, both for the caller to close."""
        self._close_ends()
        self._typed = b""
        self._ends = os.openpty()
        self._resize(*self._size)
        os.set_blocking(self._ends[0], False)
        return os.dup(self._ends[0]), os.dup(self._ends[1])

    def wants(self) -> list[tuple[int, int]]:
        """Descriptors and what to wait for on them."""
        found = [(self._listener.fileno(), select.POLLIN)]
        reading = select.POLLIN if len(self._typed) < MOST_TYPED else 0
        for descriptor, client in self._clients.items():
            found.append((descriptor, reading | (select.POLLOUT if client.behind else 0)))
        if self._typed and self._ends[0] >= 0:
            found.append((self._ends[0], select.POLLOUT))
        return found

    def holds_output(self) -> bool:
        """Whether no more may be shown until a client has taken what it was given."""
        return any(client.is_slow() for client in self._clients.values())

    def due(self) -> float | None:
        """When a client that takes nothing is to be let go (`handle` does it)."""
        return min((c.took + PATIENCE for c in self._clients.values() if c.is_slow()), default=None)

    def handle(self, ready: list[int]) -> None:
        """Do what can be done on these descriptors now."""
        if self._listener.fileno() in ready:
            self._accept_client()
        for descriptor in ready:
            client = self._clients.get(descriptor)
            if client is not None and not (client.push() and self._read_client(client)):
                self._drop(descriptor)
        now = time.monotonic()
        for descriptor, client in list(self._clients.items()):
            if client.is_slow() and now >= client.took + PATIENCE:
                self._drop(descriptor)
        self._write_typed()

    def show(self, data: bytes) -> None:
        """Output of the program, for everybody who is attached."""
        for descriptor, client in list(self._clients.items()):
            client.behind += data
            if not client.push():
                self._drop(descriptor)

    def _accept_client(self) -> None:
        with contextlib.suppress(OSError):
            stream = self._listener.accept()[0]
            stream.setblocking(False)
            self._clients[stream.fileno()] = Client(stream)

    def _read_client(self, client: Client) -> bool:
        """False when the client has hung up."""
        try:
            data = client.stream.recv(1 << 14)
        except BlockingIOError:
            return True
        except OSError:
            return False
        client.sent += data
        for kind, text in client.frames():
            if kind == b"i":
                self._typed += text
            elif kind == b"w" and len(text) == SIZE.size:
                self._size = SIZE.unpack(text)
                self._resize(*self._size)
        return bool(data)

    def _write_typed(self) -> None:
        try:
            while self._typed and self._ends[0] >= 0:
                self._typed = self._typed[os.write(self._ends[0], self._typed[:1024]) :]
        except BlockingIOError:
            return
        except OSError:
            self._typed = b""

    def _resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._ends[0], termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _drop(self, descriptor: int) -> None:
        self._clients.pop(descriptor).stream.close()

    def _close_ends(self) -> None:
        for descriptor in self._ends:
            if descriptor >= 0:
                os.close(descriptor)
        self._ends = (-1, -1)

    def close(self) -> None:
        for descriptor in list(self._clients):
            self._clients[descriptor].stream.setblocking(True)
            self._clients[descriptor].stream.settimeout(1.0)
            self._clients[descriptor].push()
            self._drop(descriptor)
        self._listener.close()
        self._close_ends()
        with contextlib.suppress(OSError):
            os.unlink(NAME, dir_fd=self._place)
        os.close(self._place)
