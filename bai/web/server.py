"""`bai serve`: loops in threads, the API in front of them, and a clean end."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bai.settings import Settings

if TYPE_CHECKING:
    import uvicorn

    from bai.controller.document_sources import Origin
    from bai.controller.loop_threads import Manner
    from bai.web.auth.roles import Access
    from bai.web.connection_limits import Bounds
    from bai.web.hub import Hub
    from reconciler.gitops.webhook_verifier import Ears

PATIENCE = 60.0
"""Seconds in which what a loop has begun comes to its end."""
FILES = 256
"""Files that are kept free for everything but connections."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the API is reached, by whom, and what they may take."""

    listen: str
    access: Path | None
    webhook_secret: str
    bounds: Bounds


class Server:
    """Raises BaiError when a cluster cannot be opened, or an option says nothing sensible."""

    def __init__(self, settings: Settings, origin: Origin | None, way: Way, manner: Manner) -> None:
        from bai.tracing import traces_of
        from bai.web.connection_limits import RESERVE
        from bai.web.hub import Hub
        from reconciler.controller.standby import Beside

        self._access, self._ears = _access(way), _ears(way)
        self._bounds = way.bounds
        _raise_files(self._bounds.connections + RESERVE + FILES)
        self._socket = listening(way.listen)
        self._traces = traces_of(os.environ)
        self._hub = Hub(manner.stuck_after, [self._traces] if self._traces else [])
        self._lease = manner.lease
        for loop in manner.loops(settings, origin, self._hub.heard):
            loop.stand_by = Beside(loop, self._hub.heard).look
            self._hub.add(loop)

    def run(self) -> bool:
        """Until a signal says stop; False when something was left undone."""
        import uvicorn

        from bai.controller.dispatchers import heralds
        from bai.controller.leaders import elected
        from bai.controller.loop_threads import haltable, say
        from bai.web.app import create_app
        from bai.web.http_protocol import Config

        app = create_app(self._hub, self._access, self._ears)
        server = uvicorn.Server(Config(app, self._bounds, timeout_graceful_shutdown=5))
        ended = False
        try:
            loops = [watched.loop for watched in self._hub.clusters.values()]
            with elected(loops, self._lease), heralds(loops) as telling:
                for name, herald in telling.items():
                    self._hub.clusters[name].herald = herald
                self._hub.start()
                try:
                    # uvicorn raises once more the signal that ended it, which must not end what follows.
                    with haltable(loops), _told(server, self._hub):
                        server.run([self._socket])
                finally:
                    self._hub.halt()
                    ended = self._hub.join(PATIENCE)
        finally:
            self._hub.close()
            if self._traces is not None:
                self._traces.close()
        say("", "stopped")
        return server.started and ended and not self._hub.broken


@contextlib.contextmanager
def _told(server: uvicorn.Server, hub: Hub) -> Iterator[None]:
    """Whoever started us hears when requests are answered; a loop that breaks ends the server."""
    from bai.controller.systemd import watched

    over = threading.Event()

    def run() -> None:
        while not server.started and not over.wait(0.05):
            pass
        with watched(hub.stuck):
            while not over.wait(1.0):
                if hub.broken:
                    server.should_exit = True

    thread = threading.Thread(target=run, name="bai-told", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def listening(listen: str) -> socket.socket:
    """Raises CommandError where nothing can listen."""
    from bai.controller.loop_threads import say
    from schemas.problems.errors import CommandError

    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise CommandError(
            why=f"--listen: {listen!r} is no address", hint="write 127.0.0.1:8080 or [::]:8080"
        )
    host = host.strip("[]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, int(port)), family=family, backlog=2048)
    except OSError as error:
        raise CommandError(why=f"--listen {listen}: {_reason(error)}") from None
    # Connections inherit it. An answer's head and body are two writes: without it the second one waits until
    # the first one was acknowledged, which the other side puts off for 40 ms.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Who is gone without a word is noticed also where there is nothing to say: in two hours by default.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
    say("", f"answers at http://{listen.rpartition(':')[0] or host}:{found.getsockname()[1]}")
    return found


def _raise_files(wanted: int) -> None:
    """Have so many files open at a time. Raises CommandError where that cannot be."""
    import resource

    from schemas.problems.errors import CommandError

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):
        raise CommandError(
            why=f"--max-connections: they need {wanted} open files, and this process may have {soft}",
            hint="raise `ulimit -n` (LimitNOFILE= of a systemd unit), or allow fewer connections",
        ) from None


def _reason(error: OSError) -> str:
    """Without the address, which Python adds to what the system says."""
    known = error.errno is not None and not isinstance(error, socket.gaierror)
    return os.strerror(error.errno or 0).lower() if known else str(error.strerror or error)


def _access(way: Way) -> Access:
    from bai.controller.loop_threads import say
    from bai.web.auth.roles import Fixed

    if way.access is None:
        say("", "no --access: nobody may read anything but /healthz and /readyz")
        return Fixed()
    from bai.web.auth.access_file import Followed

    return Followed(way.access, lambda line: say("", line))


def _ears(way: Way) -> Ears | None:
    from reconciler.gitops.webhook_verifier import Ears
    from reconciler.secrets.operator_values import resolve

    return Ears(resolve(way.webhook_secret).strip()) if way.webhook_secret else None
