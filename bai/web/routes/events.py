"""News of a cluster as server-sent events: `pass` after each pass, `event` for each thing that happened."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from bai.render.humanize import iso_time
from bai.render.resources.events import event_json
from bai.web.auth.roles import Principal, Viewer
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import Cluster, error_responses, project_view
from reconciler.controller.cycle import ReconcileCycle

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
        **error_responses(_404="There is no such cluster."),
    },
)
async def stream(
    request: Request,
    cluster: Cluster,
    user: Viewer,
    last: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**62)] = None,
) -> StreamingResponse:
    """Begins with what happened after `Last-Event-ID`, else with what happens from now on."""
    return StreamingResponse(
        _messages(request, cluster, user, last),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _messages(
    request: Request, cluster: ServedCluster, user: Principal, last: int | None
) -> AsyncIterator[str]:
    loop, passed, end = asyncio.get_running_loop(), asyncio.Event(), time.monotonic() + LONGEST

    def on_pass(done: ReconcileCycle) -> None:
        loop.call_soon_threadsafe(passed.set)

    if last is None:
        last = await asyncio.to_thread(_newest_seq, cluster)
    cluster.listeners.append(on_pass)
    try:
        yield _message("pass", _pass_json(cluster, user))
        while time.monotonic() < end and not cluster.loop.halted and not await request.is_disconnected():
            found = await asyncio.to_thread(_event_messages, cluster, user, last)
            for seq, message in found:
                last = seq
                if message:
                    yield message
            try:
                await asyncio.wait_for(passed.wait(), ALIVE)
                passed.clear()
                yield _message("pass", _pass_json(cluster, user))
            except TimeoutError:
                yield ": alive\n\n"
    finally:
        cluster.listeners.remove(on_pass)


def _newest_seq(cluster: ServedCluster) -> int:
    newest = cluster.loop.workspace.store.events(cluster.name, limit=1)
    return newest[-1].seq if newest else 0


def _event_messages(cluster: ServedCluster, user: Principal, after: int) -> list[tuple[int, str]]:
    """What happened, as far as it is theirs; nothing to be said of the rest."""
    view = project_view(cluster, user)
    found = cluster.loop.workspace.store.events(cluster.name, after=after)
    return [
        (
            each.seq,
            _message("event", view.redact(event_json(each)), str(each.seq))
            if view.sees(each.resource)
            else "",
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


def _message(kind: str, data: dict[str, Any], id_: str = "") -> str:
    mark = f"id: {id_}\n" if id_ else ""
    return f"{mark}event: {kind}\ndata: {json.dumps(data)}\n\n"
