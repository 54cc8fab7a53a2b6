"""Ways to ports of kernels and services, as Caddy dials them: a unix socket for each, behind which its
connections are dialled by the provider and joined."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from bai.web.apps.proxy.balancer import Balancer
from bai.web.apps.proxy.event_loop import new_event_loop
from bai.web.apps.proxy.service_way import ServiceWay, Terms
from providers.machines.base import Stream
from providers.machines.relay import DialledWay, Listening, Relay

Dial = Callable[[str, int], Stream]
"""A kernel's id and its port; raises BaiError, OSError."""
MOST = 2048
"""Connections in all, and of one app of a session:"""
MOST_EACH = 512
MOST_OF_SERVICE = 1024
"""Of one app of a service: as many requests are under way there."""
DIALS_OF_SERVICE = 32
OPEN_FILES = 2 * MOST
UNUSED = 300.0
"""Seconds after which a way goes that nobody has asked for and nobody uses."""
_LONGEST_PATH = 107
"""Bytes of a socket's path."""
_SPELLINGS = 16
"""Binary digits of a number that comes again so late that whose it was is over."""
_BACKLOG = 512
_SWEEP = 30.0


@dataclass(slots=True)
class _Tunnel:
    path: Path
    listening: Listening
    used: float
    failure: str = ""


class Tunnels:
    """Sockets lie in `folder`, which is this process's alone. May be used from several threads; `say` hears
    why connections fail."""

    def __init__(
        self, folder: Path, dial: Dial, say: Callable[[str], None], *,
        unused: float = UNUSED, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.folder = folder
        self._dial = dial
        self._say = say
        self._unused = unused
        self._clock = clock
        self._open: dict[tuple[str, int], _Tunnel] = {}
        self._lock = threading.Lock()
        self._swept = clock()
        self._relay = Relay(MOST, new_event_loop)
        self.balancer = Balancer()
        self._terms: dict[tuple[str, int], Terms] = {}
        self._spellings = count()

    def address(self, kernel_id: str, port: int) -> str:
        """Where Caddy reaches this port. Raises OSError where no socket can be made."""
        return self._address((kernel_id, port), partial(self._dig, kernel_id, port))

    def service_address(self, service: str, port: int, hold: float = 0.0, *, timed: bool = True) -> str:
        """Where Caddy reaches this port of a service, each connection at the replica that the balancer
        chooses; where there is none, it waits for one, `hold` seconds at most. `timed`: whether the first
        bytes that come back are an answer's. Raises OSError where no socket can be made.

        Each answer has another spelling of the path. Caddy has a connection for each request, but among those
        to one address its client of HTTP/2 may give one connection to two requests, of which one then fails.
        """
        self._terms[service, port] = Terms(hold, timed=timed)
        found = self._address((service, port), partial(self._dig_to_service, service, port))
        return _spelled(found, next(self._spellings))

    def _address(self, key: tuple[str, int], dig: Callable[[float], _Tunnel]) -> str:
        now = self._clock()
        with self._lock:
            if now - self._swept > _SWEEP:
                self._sweep(now)
            tunnel = self._open.get(key)
            if tunnel is None:
                tunnel = self._open[key] = dig(now)
            tunnel.used = now
            return f"unix/{tunnel.path}"

    def failure(self, kernel_id: str, port: int) -> str:
        """Why the last connection to this port failed that failed, in a sentence; empty where none did."""
        with self._lock:
            tunnel = self._open.get((kernel_id, port))
            return tunnel.failure if tunnel is not None else ""

    @property
    def count(self) -> int:
        with self._lock:
            return len(self._open)

    def close(self) -> None:
        """Cuts what is open."""
        self._relay.close()
        with self._lock:
            for tunnel in self._open.values():
                tunnel.path.unlink(missing_ok=True)
            self._open.clear()

    def _dig(self, kernel_id: str, port: int, now: float) -> _Tunnel:
        path, listener = self._listener(kernel_id, port)
        way = partial(DialledWay, partial(self._dial, kernel_id, port))
        say = partial(self._failed, kernel_id, port)
        return _Tunnel(path, self._relay.listen(listener, way, say, MOST_EACH), now)

    def _dig_to_service(self, service: str, port: int, now: float) -> _Tunnel:
        path, listener = self._listener(service, port)

        def way() -> ServiceWay:
            return ServiceWay(self.balancer, service, port, self._dial, self._terms[service, port])

        say = partial(self._failed, service, port)
        listening = self._relay.listen(listener, way, say, MOST_OF_SERVICE, DIALS_OF_SERVICE)
        return _Tunnel(path, listening, now)

    def _listener(self, kernel_id: str, port: int) -> tuple[Path, socket.socket]:
        # A path of a socket holds 107 bytes, and a kernel's id may be longer than that.
        name = hashlib.sha256(f"{port} {kernel_id}".encode()).hexdigest()[:32]
        path = self.folder / name
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        return path, listener

    def _failed(self, kernel_id: str, port: int, why: str) -> None:
        """The log hears of each reason once: a page that waits for an app asks every few seconds."""
        with self._lock:
            tunnel = self._open.get((kernel_id, port))
            known = tunnel is None or tunnel.failure == why
            if tunnel is not None:
                tunnel.failure = why
        if not known:
            self._say(f"port {port} of {kernel_id} is not reached: {why}")

    def _sweep(self, now: float) -> None:
        self._swept = now
        for key, tunnel in list(self._open.items()):
            if tunnel.listening.open == 0 and now - tunnel.used > self._unused:
                del self._open[key]
                self._relay.end(tunnel.listening)
                with contextlib.suppress(OSError):
                    tunnel.path.unlink()


def _spelled(address: str, number: int) -> str:
    """The same path, in one of many spellings: `/a/b` is `/a//./b`."""
    folder, _, name = address.rpartition("/")
    room = (_LONGEST_PATH - len(address.removeprefix("unix/").encode())) // 2
    bits = (number >> place & 1 for place in range(min(room, _SPELLINGS)))
    return f"{folder}/{''.join('./' if bit else '//' for bit in bits)}{name}"
