"""A unix socket that leads to another one, and can be cut: what a node's connection is to who talks to it."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class Cable:
    """Listens at `path` and passes everything to `target`, until it is cut; `mend` it to go on."""

    def __init__(self, path: Path, target: str) -> None:
        self.path = path
        self._target = target
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.mend()

    def mend(self) -> None:
        if self._listener is None:
            self.path.unlink(missing_ok=True)
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self.path))
            self._listener.listen(64)
            threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """At once and in the midst of whatever is under way; what arrived has arrived."""
        with self._lock:
            listener, self._listener = self._listener, None
            cut, self._open = self._open, set()
        if listener is not None:
            _close(listener)
        self.path.unlink(missing_ok=True)
        for each in cut:
            _close(each)

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                with self._lock:
                    if listener is not self._listener:
                        _close(near)  # It came just before the cut.
                        return
                    self._open |= {near, far}
                try:
                    far.connect(self._target)
                except OSError:
                    _close(near)
                    continue
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=_pass, args=(source, sink), daemon=True).start()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    """Who sends is told that nobody takes it any more, as by a socket of his own."""
    end = socket.SHUT_WR
    try:
        while data := source.recv(65_536):
            sink.sendall(data)
    except OSError:
        end = socket.SHUT_RDWR
        with contextlib.suppress(OSError):
            source.shutdown(end)
    with contextlib.suppress(OSError):
        sink.shutdown(end)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
