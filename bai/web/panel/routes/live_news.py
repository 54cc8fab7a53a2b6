"""That a cluster has changed, as server-sent events: a page then asks for itself again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import anyio
from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from bai.web.cluster_loops import ServedCluster
from bai.web.panel.access.visitor import PageViewer, VisitedCluster
from bai.web.panel.news import ClusterNews
from bai.web.panel.pages import Panel
from bai.web.panel.routes.page_route import page_router
from bai.web.routes.events import ALIVE, GRACE, LONGEST
from bai.web.streaming import call_in

router = page_router()


@router.get("/clusters/{cluster}/live")
async def live(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, known: int = -1
) -> EventSourceResponse:
    """`changed` after each pass that changed what pages show, and at once where one did since the page was
    made. `known`: the news that there was then."""
    panel: Panel = request.app.state.panel
    woken, stopping = asyncio.Event(), anyio.Event()

    async def wake_to_stop() -> None:
        await stopping.wait()
        woken.set()

    return EventSourceResponse(
        _messages(cluster, panel.news[cluster.name], known, woken, stopping), ping=ALIVE, sep="\n",
        data_sender_callable=wake_to_stop, shutdown_event=stopping, shutdown_grace_period=GRACE,
    )  # fmt: skip


async def _messages(
    cluster: ServedCluster, news: ClusterNews, known: int, woken: asyncio.Event, stopping: anyio.Event
) -> AsyncIterator[ServerSentEvent]:
    loop, end = asyncio.get_running_loop(), time.monotonic() + LONGEST

    def on_news() -> None:
        call_in(loop, woken.set)

    news.listeners.append(on_news)
    try:
        while time.monotonic() < end and not (stopping.is_set() or cluster.loop.halted):
            if news.count != known:
                known = news.count
                yield ServerSentEvent("", event="changed", sep="\n")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALIVE):
                    await woken.wait()
            woken.clear()
    finally:
        news.listeners.remove(on_news)
