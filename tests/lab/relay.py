"""A port that leads to another one, in another network namespace: of this machine to the lab's, and back."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator

from tests.lab.spaces import PATIENCE, inside, listening

_CHUNK = 1 << 18


class Relay:
    """Listens on `here` until closed, in the network of the namespace `at`; every connection goes on to
    `there`, in that of `namespace`, from the address `source`. What is empty is the machine's own."""

    def __init__(
        self,
        here: tuple[str, int],
        namespace: str,
        there: tuple[str, int],
        *,
        at: str = "",
        source: str = "",
    ) -> None:
        self._namespace, self._there = namespace, there
        self._source = (source, 0) if source else None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        self._listening = listening(at, *here) if at else socket.create_server(here, backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """On which it listens."""
        return int(self._listening.getsockname()[1])

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(connection,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            with inside(self._namespace) if self._namespace else contextlib.nullcontext():
                far = socket.create_connection(self._there, PATIENCE, self._source)
            far.settimeout(None)
            with far, self._kept(near, far):
                _copy(near, far)

    @contextlib.contextmanager
    def _kept(self, *both: socket.socket) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise OSError("the connection came just before the end")
            self._open |= set(both)
        try:
            yield
        finally:
            with self._lock:
                self._open -= set(both)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            self._closed = True
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _copy(one: socket.socket, other: socket.socket) -> None:
    """Until both sides have said that nothing more comes, or one is gone."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(one, selectors.EVENT_READ, other)
        waiting.register(other, selectors.EVENT_READ, one)
        while waiting.get_map():
            for key, _ in waiting.select():
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                if data := source.recv(_CHUNK):
                    target.sendall(data)
                else:
                    waiting.unregister(source)
                    target.shutdown(socket.SHUT_WR)
