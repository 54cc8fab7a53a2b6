"""The gate's server: an ASGI app on a unix socket that only bai's own user may open.

It is asked once for each request to an app, so it has a thread and an event loop of its own, beside the
loops and the API.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from bai.web.apps.proxy.caddy_config import LARGEST_HEAD, PERMISSION_PATH
from bai.web.apps.proxy.event_loop import new_event_loop

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Receive, Scope, Send

_BACKLOG = 2048
_PATIENCE = 10.0
"""Seconds in which what it was asked is answered at its end."""
_LONGER_THAN_CADDY = 90
"""Seconds that a connection may rest; Caddy ends them after 60, so none is used that is about to end."""


class GateServer:
    """Serves `app` at `path` from `start` to `close`. With `permission`, what Caddy asks about certificates
    is answered at a port of the loopback as well: it asks no unix socket for that."""

    def __init__(self, app: ASGIApp, path: Path, *, permission: bool = False) -> None:
        self._app = _only_certificates_over_tcp(app)
        self._sockets = [unix_socket(path)]
        self.permission_url = ""
        if permission:
            loopback = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
            self._sockets.append(loopback)
            self.permission_url = f"http://127.0.0.1:{loopback.getsockname()[1]}{PERMISSION_PATH}"
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="bai-gate", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)
        for each in self._sockets:
            each.close()

    def _run(self) -> None:
        import uvicorn

        config = uvicorn.Config(
            self._app, http="auto", ws="none", lifespan="off", log_level="error", access_log=False,
            proxy_headers=False, server_header=False, date_header=False,
            h11_max_incomplete_event_size=2 * LARGEST_HEAD, timeout_keep_alive=_LONGER_THAN_CADDY,
            timeout_graceful_shutdown=2, backlog=_BACKLOG,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        loop = new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._server.serve(self._sockets))
        finally:
            loop.close()


def unix_socket(path: Path) -> socket.socket:
    """Listens there, for this user alone."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        os.chmod(path, 0o600)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _only_certificates_over_tcp(app: ASGIApp) -> ASGIApp:
    """Every user of this machine can ask there."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        server = scope.get("server")
        if scope["type"] == "http" and server and server[1] is not None and scope["path"] != PERMISSION_PATH:
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return answer
