"""Followers of logs that say nothing: each with a thread of its own, and as Starlette reads an iterator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from bai.web.streaming import MOST_FOLLOWERS, Followers
from benchmarks.web.event_streams import Client

PATIENCE = 2.0


def _application(over: threading.Event) -> FastAPI:
    app, followers = FastAPI(), Followers(most_each=MOST_FOLLOWERS)

    def quiet() -> Iterator[bytes]:
        yield b"one line\n"
        over.wait()

    @app.get("/bai")
    async def ours() -> StreamingResponse:
        return StreamingResponse(followers.follow("ada", quiet()))

    @app.get("/starlette")
    async def starlette() -> StreamingResponse:
        return StreamingResponse(quiet())

    @app.get("/other")
    def other() -> str:
        return "answered by one of the threads for all requests"

    return app


async def _others_are_answered(app: FastAPI, path: str, over: threading.Event) -> bool:
    clients = [Client(app, path, 0) for _ in range(MOST_FOLLOWERS)]
    tasks = [asyncio.create_task(client.run()) for client in clients]
    await asyncio.gather(*(client.first.wait() for client in clients))
    await asyncio.sleep(0.2)
    asked = asyncio.create_task(Client(app, "/other", 0).run())
    answered = bool((await asyncio.wait([asked], timeout=PATIENCE))[0])
    over.set()
    await asyncio.gather(asked, *tasks)
    return answered


def quiet_logs() -> dict[str, Any]:
    """Whether others are answered while as many follow as may."""
    found = {}
    for path in ("/bai", "/starlette"):
        over = threading.Event()
        found[path] = asyncio.run(_others_are_answered(_application(over), path, over))
    return {f"others are answered beside {MOST_FOLLOWERS} followers": found}
