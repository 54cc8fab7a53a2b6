"""Local ports joined to ports of a kernel: any number of connections, each half closed as its ends do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from providers.machines.base import Stream

CHUNK = 1 << 16
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class PortMapping:
    """One local port (0: any that is free) and the kernel's."""

    local: int
    port: int
    name: str = ""


class Forwarder:
    """Listens on one local address and connects each caller. Use as a context manager.

    `connect` is called for every connection; `say` hears why one failed. Raises CommandError when the port
    cannot be had.
    """

    def __init__(
        self, address: str, mapping: PortMapping, connect: Callable[[], Stream], say: Callable[[str], None]
    ) -> None:
        self.mapping = mapping
        self._connect = connect
        self._say = say
        self._listener = _listen(address, mapping.local)
        self.address: str = self._listener.getsockname()[0]
        self.local: int = self._listener.getsockname()[1]
        self._open: set[Stream] = set()
        self._ended = False
        self._lock = threading.Lock()

    def __enter__(self) -> Forwarder:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            self._ended = True
            for stream in self._open:
                _shut_down(stream)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with self._tracked(near):
            try:
                far = self._connect()
            except (BaiError, OSError) as error:
                self._say(error.message if isinstance(error, BaiError) else str(error))
                return
            with self._tracked(far):
                back = threading.Thread(target=pump, args=(far, near), daemon=True)
                back.start()
                pump(near, far)
                back.join()

    @contextlib.contextmanager
    def _tracked(self, stream: Stream) -> Iterator[None]:
        """Cut when the forwarder ends; at once, where it has ended while the stream was being made."""
        with self._lock:
            self._open.add(stream)
            if self._ended:
                _shut_down(stream)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(stream)
            stream.close()


def _listen(address: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise CommandError(why=f"{address} is no address of this machine: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        why = f"cannot listen on {address}:{port}: {(error.strerror or str(error)).lower()}"
        raise CommandError(why=why, hint="choose another local port; 0:PORT takes any") from error
    return listener


def _shut_down(stream: Stream) -> None:
    with contextlib.suppress(OSError, EOFError, BaiError):
        stream.shutdown(socket.SHUT_RDWR)


def pump(source: Stream, target: Stream) -> None:
    """Everything from one to the other, which is told then that no more comes. A broken side breaks both."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
    except (OSError, EOFError):
        for stream in (source, target):
            _shut_down(stream)
        return
    with contextlib.suppress(OSError, EOFError):
        target.shutdown(socket.SHUT_WR)
