"""A real HTTP server and a real mail server, which keep what they get."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session

from tests.harness.ports import free_port
from tests.lab.certificates import Certificate
from tests.lab.spaces import PATIENCE


@dataclass
class Got:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """`answers` are given in turn, then 200."""

    url: str = ""
    got: list[Got] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)


@contextlib.contextmanager
def hook(tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    made = Hook()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            made.got.append(Got(self.command, self.path, dict(self.headers.items()), body))
            status, headers = made.answers.pop(0) if made.answers else (200, {})
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "2"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"ok")

        do_POST = do_PUT = do_GET = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    made.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/services/T0/B0/hidden"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Post:
    """A mail server. `refuse`: what it answers to a message instead of taking it."""

    port: int = 0
    mails: list[Envelope] = field(default_factory=list)
    secure: list[bool] = field(default_factory=list)
    refuse: str = ""

    async def handle_RCPT(
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.startswith("nobody"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:
        if self.refuse:
            return self.refuse
        self.mails.append(envelope)
        self.secure.append(
            session.ssl is not None or server.transport.get_extra_info("ssl_object") is not None
        )
        return "250 OK"


@contextlib.contextmanager
def mail_server(
    kind: str, context: ssl.SSLContext | None, login: tuple[str, str] | None = None
) -> Iterator[Post]:
    """`starttls` demands it, `tls` is encrypted from the first byte, `none` is plain."""
    post = Post()

    def known(server: Any, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        right = (data.login.decode(), data.password.decode()) == login
        return AuthResult(success=right, handled=False)

    options: dict[str, Any] = {"hostname": "127.0.0.1", "port": free_port()}
    if login is not None:
        options |= {"authenticator": known, "auth_required": True, "auth_require_tls": kind == "starttls"}
    if kind == "starttls":
        options |= {"tls_context": context, "require_starttls": True}
    elif kind == "tls":
        options |= {"ssl_context": context}
    controller = Controller(post, ready_timeout=PATIENCE, **options)
    controller.start()
    post.port = controller.port
    try:
        yield post
    finally:
        controller.stop()


def certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """For 127.0.0.1; the server's side, and a file to trust it by."""
    made = Certificate.make("127.0.0.1")
    (folder / "server.pem").write_bytes(made.pem)
    (folder / "server.key").write_bytes(made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context, str(folder / "server.pem")
