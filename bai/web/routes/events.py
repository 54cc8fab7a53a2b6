"""News of a cluster as server-sent events: `pass` after each pass, `event` for each thing that happened."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from bai.render.humanize import moment
from bai.render.resources.events import event_json
from bai.web.auth.roles import Somebody, Viewer
from bai.web.dependencies import Cluster, refusals, sight
from bai.web.hub import Watched
from reconciler.controller.cycle import Pass

router = APIRouter(prefix="/api/v1/clusters/{cluster}", tags=["clusters"])
ALIVE = 15.0
"""Seconds of silence after which a comment keeps proxies from closing the connection."""
LONGEST = 3600.0
"""Seconds after which a stream ends: whoever comes again, with `Last-Event-ID`, is asked again who it is."""


@router.get(
    "/stream",
    summary="News, as they happen (server-sent events)",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "News."},
        **refusals(_404="There is no such cluster."),
    },
)
async def stream(
    request: Request,
    cluster: Cluster,
    who: Viewer,
    last: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**62)] = None,
) -> StreamingResponse:
    """Begins with what happened after `Last-Event-ID`, else with what happens from now on."""
    return StreamingResponse(
        _news(request, cluster, who, last),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _news(request: Request, cluster: Watched, who: Somebody, last: int | None) -> AsyncIterator[str]:
    loop, told, end = asyncio.get_running_loop(), asyncio.Event(), time.monotonic() + LONGEST

    def heard(done: Pass) -> None:
        loop.call_soon_threadsafe(told.set)

    if last is None:
        last = await asyncio.to_thread(_newest, cluster)
    cluster.listeners.append(heard)
    try:
        yield _said("pass", _pass(cluster, who))
        while time.monotonic() < end and not cluster.loop.halted and not await request.is_disconnected():
            found = await asyncio.to_thread(_events, cluster, who, last)
            for seq, said in found:
                last = seq
                if said:
                    yield said
            try:
                await asyncio.wait_for(told.wait(), ALIVE)
                told.clear()
                yield _said("pass", _pass(cluster, who))
            except TimeoutError:
                yield ": alive\n\n"
    finally:
        cluster.listeners.remove(heard)


def _newest(cluster: Watched) -> int:
    newest = cluster.loop.workspace.store.events(cluster.name, limit=1)
    return newest[-1].seq if newest else 0


def _events(cluster: Watched, who: Somebody, after: int) -> list[tuple[int, str]]:
    """What happened, as far as it is theirs; nothing to be said of the rest."""
    eyes = sight(cluster, who)
    found = cluster.loop.workspace.store.events(cluster.name, after=after)
    return [
        (
            each.seq,
            _said("event", eyes.clear(event_json(each)), str(each.seq)) if eyes.sees(each.resource) else "",
        )
        for each in found
    ]


def _pass(cluster: Watched, who: Somebody) -> dict[str, Any]:
    latest = cluster.latest
    return {
        "at": moment(latest.ended) if latest else "",
        "commit": cluster.loop.workspace.commit,
        "good": bool(latest and latest.good),
        "notes": list(latest.notes) if latest and who.projects is None else [],
    }


def _said(kind: str, data: dict[str, Any], id_: str = "") -> str:
    mark = f"id: {id_}\n" if id_ else ""
    return f"{mark}event: {kind}\ndata: {json.dumps(data)}\n\n"
