"""An HTTPS server that answers as a test says, request by request: for what a real API server does rarely."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from providers.kubernetes.api.access import ClusterAccess
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import Credentials, StaticCredentials
from tests.lab.certificates import Certificate


@dataclass
class Request:
    """One request; `say` writes a piece of an answer that goes on."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    say: Callable[[Any], None] = field(repr=False, default=lambda _: None)
    cut: Callable[[], None] = field(repr=False, default=lambda: None)
    begin: Callable[[], None] = field(repr=False, default=lambda: None)
    """Say that it is a success, before there is anything to say."""
    data: bytes = b""

    @property
    def body(self) -> Any:
        return json.loads(self.data)

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "1"


Answer = tuple[int, Any] | None
"""Status and body, as JSON where it is no bytes; None: it was said piece by piece."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave in the midst of an answer are what tests are about."""


class ApiServer:
    """`answer` is asked for each request, in a thread of the request's own."""

    def __init__(self, folder: Path, answer: Callable[[Request], Answer]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.certificate = Certificate.make("127.0.0.1")
        (folder / "server.pem").write_bytes(self.certificate.pem + self.certificate.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def access(self, credentials: Credentials | None = None, **fields: Any) -> ClusterAccess:
        given = {"ca": self.certificate.pem, **fields}
        return ClusterAccess(self.url, credentials or StaticCredentials("secret"), **given)

    def client(self, credentials: Credentials | None = None) -> ApiClient:
        return ApiClient(self.access(credentials))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

            def handle_any(self) -> None:
                parts = urlsplit(self.path)
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(
                    self.command, parts.path, dict(parse_qsl(parts.query)), dict(self.headers.items()),
                    self._say, self._cut, self._begin, data,
                )  # fmt: skip
                self.begun = False
                server.requests.append(request)
                found = server.answer(request)
                if found is None:
                    if not self.begun:
                        self._begin()
                    if not self.close_connection:
                        self.wfile.write(b"0\r\n\r\n")
                    return
                status, body = found
                said = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def _begin(self) -> None:
                self.begun = True
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()

            def _say(self, event: Any) -> None:
                if not self.begun:
                    self._begin()
                line = (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()

            def _cut(self) -> None:
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@contextmanager
def serving(folder: Path, answer: Callable[[Request], Answer]) -> Iterator[ApiServer]:
    server = ApiServer(folder, answer)
    try:
        yield server
    finally:
        server.close()


def listed(*items: Any, version: int = 10, go_on: str = "") -> Answer:
    metadata = {"resourceVersion": str(version), **({"continue": go_on} if go_on else {})}
    return 200, {"metadata": metadata, "items": list(items)}


def thing(name: str, version: int, value: Any = 0, uid: str = "") -> dict[str, Any]:
    """An object of no kind in particular."""
    about = {"namespace": "n", "name": name, "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": about, "value": value}


def event(what: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": what, "object": found}


def status(code: int, message: str = "no", reason: str = "") -> Answer:
    return code, {"kind": "Status", "code": code, "message": message, "reason": reason}
