"""A small app, a gate that does as it is told, and the real Caddy between them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.sync.client import ClientConnection, connect

from bai.web.apps.proxy.app_proxy import AppProxyServer, AppProxySettings
from bai.web.apps.proxy.certificates import Certificates, InternalCertificates
from bai.web.apps.proxy.engine import find_engine
from bai.web.apps.proxy.tunnels import Dial, Tunnels
from tests.waiting import until

HOST = "lab.apps.example"
PATTERN = "*.apps.example"
COOKIES = (
    "a=1; Domain=apps.example; Path=/",
    "b=2; Path=/; DOMAIN = .apps.example ; HttpOnly",
    "c=3;domain=apps.example;domain=example;dOmAiN;Secure",
    "d=4; \t Domain\t=apps.example",
    "e=domain=kept; Path=/",
    "__Host-bai-app=forged; Path=/; Secure",
    "=__host-BAI-app=forged; Path=/; Secure",
    "__Secure-bai-x=forged; Secure",
    "bai-app=forged",
)


async def echo(request: Request) -> Response:
    size = 0
    async for piece in request.stream():
        size += len(piece)
    told = {
        "method": request.method,
        "path": request.scope["raw_path"].decode() if request.scope.get("raw_path") else request.url.path,
        "query": request.url.query,
        "headers": [(name.decode(), value.decode("latin-1")) for name, value in request.headers.raw],
        "size": size,
    }
    return JSONResponse(told)


async def cookies(request: Request) -> Response:
    told = {"Clear-Site-Data": '"cookies"', "Alt-Svc": 'h2="evil:1"', "Bai-X": "1"}
    answer = Response("cookies", headers={**told, "Strict-Transport-Security": "max-age=9"})
    for cookie in COOKIES:
        answer.headers.append("set-cookie", cookie)
    return answer


def sse(gate: threading.Event) -> Callable[[Request], Any]:
    async def events(request: Request) -> Response:
        async def lines() -> AsyncIterator[bytes]:
            yield b"data: first\n\n"
            while not gate.is_set():
                await asyncio.sleep(0.01)
            yield b"data: second\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    return events


async def talk(websocket: WebSocket) -> None:
    await websocket.accept(headers=[(b"set-cookie", b"w=1; Domain=apps.example; Path=/")])
    with contextlib.suppress(Exception):
        while True:
            await websocket.send_text(f"heard {await websocket.receive_text()}")


METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "TRACE"]


@contextlib.contextmanager
def served(app: Any, **options: Any) -> Iterator[int]:
    """The port of the loopback at which `app` answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        config = uvicorn.Config(
            app, log_level="error", lifespan="off", timeout_graceful_shutdown=1, **options
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        until(lambda: server.started, "the app answers")
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Gate:
    """Lets everybody pass to `port`, or answers what `answer` says."""

    port: int
    protocol: str = ""
    asked: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    answer: Callable[[str, dict[str, str]], Answer | None] = lambda path, headers: None
    allowed: dict[str, str] = field(default_factory=dict)
    certificates: frozenset[str] = frozenset()
    tunnels: Tunnels | None = None

    def __call__(self, tunnels: Tunnels) -> Callable[[Scope, Receive, Send], Any]:
        self.tunnels = tunnels
        return self._app

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        self.asked.append((path, pairs))
        status, headers, body = self._decide(path, dict(pairs), scope["query_string"].decode())
        encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        encoded.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})

    def _decide(self, path: str, headers: dict[str, str], query: str) -> Answer:
        assert self.tunnels is not None
        if path == "/certificate":
            return (200 if query.removeprefix("domain=") in self.certificates else 404), {}, b""
        if said := self.answer(path, headers):
            return said
        if path == "/unanswered":
            return 503, {"Retry-After": "3"}, b"it does not answer yet"
        upstream = {"Bai-Upstream": self.tunnels.address("kernel", self.port)}
        if self.protocol:
            upstream["Bai-Protocol"] = self.protocol
        return 200, {**upstream, **self.allowed}, b""

    def headers_of(self, number: int = -1) -> dict[str, str]:
        return dict(self.asked[number][1])


def dial_loopback(kernel_id: str, port: int) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port), timeout=30)
    stream.settimeout(None)
    return stream


@dataclass
class AppLab:
    """`send`: bytes as they are, and the whole answer, of a connection of its own."""

    gate: Gate
    proxy: AppProxyServer
    listener: socket.socket
    said: list[str]
    storage: Path
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str = "GET", path: str = "/", host: str = HOST, **options: Any) -> httpx.Response:
        headers = {"Host": host, **options.pop("headers", {})}
        with httpx.Client(timeout=60, trust_env=False) as client:
            return client.request(method, f"{self.url}{path}", headers=headers, **options)

    def status(self) -> int:
        """0 where it was cut: what is under way when Caddy is begun anew has some seconds, and no more."""
        try:
            return self.ask().status_code
        except httpx.TransportError:
            return 0

    def told(self, path: str = "/", **options: Any) -> dict[str, str]:
        """The headers that the app got."""
        return {name: value for name, value in self.ask("GET", path, **options).json()["headers"]}

    def talk(self, **options: Any) -> ClientConnection:
        """By WebSocket."""
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return connect(f"ws://{HOST}:{self.port}/ws", sock=stream, open_timeout=60, **options)

    def send(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as stream:
            stream.sendall(request)
            parts = []
            with contextlib.suppress(ConnectionError):
                while part := stream.recv(65536):
                    parts.append(part)
            return b"".join(parts)

    def is_trusted(self) -> bool:
        try:
            with (
                socket.create_connection(("127.0.0.1", self.port), timeout=60) as stream,
                self.trust().wrap_socket(stream, server_hostname=HOST),
            ):
                return True
        except OSError:
            return False

    def trust(self) -> ssl.SSLContext:
        """What trusts Caddy's own authority."""
        return ssl.create_default_context(cafile=str(self.storage / "pki/authorities/local/root.crt"))


@contextlib.contextmanager
def app_lab(
    storage: Path,
    *,
    certificates: Certificates | None = None,
    dial: Dial = dial_loopback,
    app_options: dict[str, Any] | None = None,
    gate: Gate | None = None,
) -> Iterator[AppLab]:
    go_on, said = threading.Event(), list[str]()
    routes = [
        Route("/cookies", cookies),
        Route("/sse", sse(go_on)),
        WebSocketRoute("/ws", talk),
        Route("/{path:path}", echo, methods=METHODS),
    ]
    scheme = "https" if certificates is not None else "http"
    settings = AppProxySettings(certificates, find_engine(None), storage)
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(served(Starlette(routes=routes), **(app_options or {})))
        gate = gate or Gate(port)
        gate.port = gate.port or port
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        proxy = AppProxyServer(settings, [f"{scheme}://{PATTERN}"], listener, gate, dial, said.append)
        stack.callback(proxy.close)
        stack.callback(go_on.set)
        proxy.start()
        lab = AppLab(gate, proxy, listener, said, storage, go_on)
        if isinstance(certificates, InternalCertificates):
            until(lab.is_trusted, "there is a certificate")
        yield lab


def decoded(answer: bytes) -> Any:
    """The JSON at the end of an answer."""
    return json.loads(answer.partition(b"\r\n\r\n")[2])
