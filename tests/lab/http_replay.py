"""A small HTTP server that replays answers which a test wrote down: for services that cannot be had here."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: object = ""
    """JSON, or bytes as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Replay:
    """On a free port of the loopback. `answers`: request target → replies, one after another, the last again
    and again; anything else is 404. `asked`: targets and `Authorization` headers in order."""

    def __init__(self, answers: Mapping[str, Reply | list[Reply]]) -> None:
        self.answers = {
            key: list(value) if isinstance(value, list) else [value] for key, value in answers.items()
        }
        self.asked: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                left = outer.answers.get(self.path, [Reply(404, {"errors": [{"code": "NOT_FOUND"}]})])
                reply = left.pop(0) if len(left) > 1 else left[0]
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                headers = {"Content-Type": "application/json", **reply.headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return None

        return Handler
