"""News of a cluster as server-sent events: `pass` after each pass, `event` for each thing that happened.

sse-starlette writes them, a comment after some seconds, which keeps proxies from closing the connection, and
ends streams when the client leaves or the server stops.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from sse_starlette import EventSourceResponse, ServerSentEvent

from bai.render.humanize import iso_time
from bai.render.resources.events import event_json
from bai.web.auth.roles import Principal, Viewer
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import Cluster, error_responses, project_view
from bai.web.streaming import call_in
from reconciler.controller.cycle import ReconcileCycle
from schemas.problems.errors.base import BaiError

router = APIRouter(prefix="/api/v1/clusters/{cluster}", tags=["clusters"])
ALIVE = 15.0
"""Seconds between two comments; without a pass for so long, the store is looked at all the same."""
LONGEST = 3600.0
"""Seconds after which a stream ends: whoever comes again, with `Last-Event-ID`, is asked again who it is."""
GRACE = 2.0
"""Seconds in which a stream ends by itself once the server stops."""
_LINE_END = "\n"


@router.get(
    "/stream",
    summary="News, as they happen (server-sent events)",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "News."},
        **error_responses(_404="There is no such cluster."),
    },
)
async def stream(
    cluster: Cluster,
    user: Viewer,
    last: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**62)] = None,
) -> EventSourceResponse:
    """Begins with what happened after `Last-Event-ID`, else with what happens from now on. Each message has
    the number of the last event before it, or its own: who comes again with that misses nothing."""
    if last is None:
        last = await asyncio.to_thread(_newest_seq, cluster)
    woken, stopping = asyncio.Event(), anyio.Event()

    async def wake_to_stop() -> None:
        await stopping.wait()
        woken.set()

    return EventSourceResponse(
        _messages(cluster, user, last, woken, stopping), ping=ALIVE, sep=_LINE_END,
        data_sender_callable=wake_to_stop, shutdown_event=stopping, shutdown_grace_period=GRACE,
    )  # fmt: skip


async def _messages(
    cluster: ServedCluster, user: Principal, last: int, woken: asyncio.Event, stopping: anyio.Event
) -> AsyncIterator[ServerSentEvent]:
    loop, end = asyncio.get_running_loop(), time.monotonic() + LONGEST

    def on_pass(done: ReconcileCycle) -> None:
        call_in(loop, woken.set)

    cluster.listeners.append(on_pass)
    try:
        yield _message("pass", _pass_json(cluster, user), str(last))
        while time.monotonic() < end and not (stopping.is_set() or cluster.loop.halted):
            for seq, message in await asyncio.to_thread(_event_messages, cluster, user, last):
                last = seq
                if message is not None:
                    yield message
            if await _is_set_within(woken, ALIVE):
                woken.clear()
                yield _message("pass", _pass_json(cluster, user), str(last))
    except BaiError:
        return  # Whoever comes again is told why, by a 503.
    finally:
        cluster.listeners.remove(on_pass)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _newest_seq(cluster: ServedCluster) -> int:
    newest = cluster.loop.workspace.store.events(cluster.name, limit=1)
    return newest[-1].seq if newest else 0


def _event_messages(
    cluster: ServedCluster, user: Principal, after: int
) -> list[tuple[int, ServerSentEvent | None]]:
    """What happened, as far as it is theirs; nothing to be said of the rest."""
    view = project_view(cluster, user)
    found = cluster.loop.workspace.store.events(cluster.name, after=after)
    return [
        (
            each.seq,
            _message("event", view.redact(event_json(each)), str(each.seq))
            if view.sees(each.resource)
            else None,
        )
        for each in found
    ]


def _pass_json(cluster: ServedCluster, user: Principal) -> dict[str, Any]:
    latest = cluster.latest
    return {
        "at": iso_time(latest.ended) if latest else "",
        "commit": cluster.loop.workspace.commit,
        "good": bool(latest and latest.good),
        "notes": list(latest.notes) if latest and user.projects is None else [],
    }


def _message(kind: str, data: dict[str, Any], id_: str | None = None) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(data), event=kind, id=id_, sep=_LINE_END)
