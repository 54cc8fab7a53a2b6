"""Server-sent events: written by hand, by FastAPI, and by sse-starlette; all in the same application."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import logging.handlers
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import sse_starlette
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.types import Message

from bai.web.connection_limits import ConnectionLimits
from bai.web.http_protocol import ServerConfig
from benchmarks.web.turns import bytes_of, cpu_us, import_ms

EVENTS = 3000
STREAMS = 200
LEAVERS, MANY = 10, 100_000
DATA = {"at": "2027-01-15T08:00:30Z", "seq": 4711, "resource": "Session/vision/train", "before": "PREPARED",
        "after": "RUNNING", "why": "its containers were seen", "commit": "0" * 40}  # fmt: skip
_READ = """
import sys, urllib.request
print(sum(line == b"event: event\\n" for line in urllib.request.urlopen(sys.argv[1])))
"""
_PATCHED = (
    "import uvicorn; b = uvicorn.Server.handle_exit; import {}; print(b is not uvicorn.Server.handle_exit)"
)


async def _numbers(count: int) -> AsyncIterator[int]:
    """As many as there are, then nothing for ever where none are."""
    for number in range(count or 1):
        yield number
    if not count:
        await asyncio.Event().wait()


def application() -> FastAPI:
    """A route for each way; `count` events, 0: one, and then silence."""
    app = FastAPI()

    @app.get("/hand")
    async def hand(count: int) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            async for number in _numbers(count):
                yield f"id: {number}\nevent: event\ndata: {json.dumps(DATA)}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    @app.get("/fastapi", response_class=EventSourceResponse)
    async def fastapi(count: int) -> AsyncIterator[ServerSentEvent]:
        async for number in _numbers(count):
            yield ServerSentEvent(event="event", raw_data=json.dumps(DATA), id=str(number))

    @app.get("/sse-starlette")
    async def starlette(count: int) -> sse_starlette.EventSourceResponse:
        async def parts() -> AsyncIterator[dict[str, str]]:
            async for number in _numbers(count):
                yield {"event": "event", "data": json.dumps(DATA), "id": str(number)}

        return sse_starlette.EventSourceResponse(parts(), sep="\n")

    return app


class Client:
    """Asks for a route within this process, and counts the parts of the answer."""

    def __init__(self, app: FastAPI, path: str, count: int) -> None:
        self._app, self.parts, self._asked = app, 0, False
        self.first = asyncio.Event()
        self._scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
            "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": f"count={count}".encode(), "headers": [], "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }  # fmt: skip

    async def run(self) -> int:
        await self._app(self._scope, self._receive, self._send)
        return self.parts

    async def _receive(self) -> Message:
        if self._asked:
            await asyncio.Event().wait()
        self._asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Message) -> None:
        if message.get("body"):
            self.parts += 1
            self.first.set()


def _stream(app: FastAPI, path: str) -> None:
    assert asyncio.run(Client(app, path, EVENTS).run()) == EVENTS


@contextlib.contextmanager
def _served(app: FastAPI) -> Iterator[str]:
    """As `bai serve` serves it; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(ServerConfig(app, ConnectionLimits(), lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _read(url: str) -> None:
    """By another process, whose time is not counted."""
    done = subprocess.run([sys.executable, "-c", _READ, url], check=True, capture_output=True, text=True)
    assert int(done.stdout) == EVENTS, done.stdout


def _over_http(app: FastAPI, ways: list[str]) -> dict[str, float]:
    with _served(app) as address:
        reads = {way: partial(_read, f"{address}{way}?count={EVENTS}") for way in ways}
        return cpu_us(reads, EVENTS)


def _logged_of_who_leaves(app: FastAPI, ways: list[str]) -> dict[str, int]:
    """Errors in the log of ten clients who leave in the middle of a stream."""
    found: dict[str, int] = {}
    with _served(app) as address:
        port, log = int(address.rpartition(":")[2]), logging.getLogger("uvicorn.error")
        for way in ways:
            log.handlers = [handler := logging.handlers.BufferingHandler(10_000)]
            log.propagate = False
            for _ in range(LEAVERS):
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall(f"GET {way}?count={MANY} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
                    connection.recv(1000)
                    time.sleep(0.2)  # The server waits for the client to take more.
            time.sleep(1)
            found[way] = len(handler.buffer)
    return found


def _bytes_while_silent(app: FastAPI, path: str) -> int:
    """Bytes of one stream that has nothing to say."""
    with asyncio.Runner() as runner:
        runner.run(_opened(app, path, 1))
        opened = bytes_of(lambda: runner.run(_opened(app, path, STREAMS)))
        return opened // STREAMS


async def _opened(app: FastAPI, path: str, count: int) -> list[asyncio.Task[int]]:
    clients = [Client(app, path, 0) for _ in range(count)]
    tasks = [asyncio.create_task(client.run()) for client in clients]
    await asyncio.gather(*(client.first.wait() for client in clients))
    return tasks


def _patches_uvicorn(module: str) -> bool:
    """Whether importing it changes how uvicorn ends."""
    done = subprocess.run(
        [sys.executable, "-c", _PATCHED.format(module)], check=True, capture_output=True, text=True
    )
    return done.stdout.strip() == "True"


def event_streams() -> dict[str, Any]:
    """Costs of an event, of a silent stream and of the import beside FastAPI and uvicorn."""
    app = application()
    ways = ["/hand", "/fastapi", "/sse-starlette"]
    modules = {"/fastapi": "fastapi.sse", "/sse-starlette": "sse_starlette"}
    return {
        "us of CPU for an event": cpu_us({way: partial(_stream, app, way) for way in ways}, EVENTS),
        "the same, over HTTP": _over_http(app, ways),
        f"errors logged of {LEAVERS} clients who leave": _logged_of_who_leaves(app, ways),
        "bytes of a silent stream": {way: _bytes_while_silent(app, way) for way in ways},
        "ms of CPU for the import": {way: import_ms(modules[way], "fastapi, uvicorn") for way in ways[1:]},
        "changes uvicorn when imported": {way: _patches_uvicorn(modules[way]) for way in ways[1:]},
    }
