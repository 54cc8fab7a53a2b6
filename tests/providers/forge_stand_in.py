"""A forge's API as far as it takes requests, and remembers them."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SCOPES = "required=[write:repository], token scope=read:repository"
_REQUEST = "head_branch: bai/operator/run-session-p-new, base_branch: main"
REFUSALS = {
    401: "invalid username, password or token",
    403: f"token does not have at least one of required scope(s), {_SCOPES}",
    404: "not found",
    409: "pull request already exists for these targets "
    f"[id: 1, issue_id: 1, head_repo_id: 1, base_repo_id: 1, {_REQUEST}]",
}
"""What Gitea 1.26 says to who asks for a pull request, by status, with every number as 1."""


class Forge(ThreadingHTTPServer):
    """Answers each request with `answer`, and remembers it. `listed`: what is open."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, dict[str, Any]] = (201, {})
        self.listed: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Forge

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        self._say(*self.server.answer)

    def do_GET(self) -> None:
        self._say(200, self.server.listed if "page=1" in self.path else [])

    def _say(self, status: int, value: object) -> None:
        said = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def forge_server() -> Iterator[Forge]:
    made = Forge()
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
