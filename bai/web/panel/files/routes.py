"""Folders of sessions and volumes, and what is fetched from them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from bai.web.panel.files.access import REFUSALS, FileAccess, SessionAccess, VolumeAccess, refusal
from bai.web.panel.files.addresses import attachment, shown
from bai.web.panel.files.folder_page import MOST_ROWS, folder_page
from bai.web.panel.files.transfers import Download, Pieces
from bai.web.panel.pages import Panel
from bai.web.panel.routes.page_route import cluster_frame, page_router

router = page_router()
SESSION = "/clusters/{cluster}/sessions/{project}/{name}/files"
VOLUME = "/clusters/{cluster}/volumes/{project}/{name}/files"
SHARED_VOLUME = "/clusters/{cluster}/volumes/{name}/files"
"""Of a volume that is no project's."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
}


@router.get(SESSION)
async def session_folder(request: Request, access: SessionAccess) -> Response:
    return await _folder(request, access)


@router.get(f"{SESSION}/content")
async def session_file(access: SessionAccess) -> Response:
    return await _content(access)


@router.get(f"{SESSION}/archive")
async def session_archive(access: SessionAccess) -> Response:
    return await _archive(access)


@router.get(VOLUME)
@router.get(SHARED_VOLUME)
async def volume_folder(request: Request, access: VolumeAccess) -> Response:
    return await _folder(request, access)


@router.get(f"{VOLUME}/content")
@router.get(f"{SHARED_VOLUME}/content")
async def volume_file(access: VolumeAccess) -> Response:
    return await _content(access)


@router.get(f"{VOLUME}/archive")
@router.get(f"{SHARED_VOLUME}/archive")
async def volume_archive(access: VolumeAccess) -> Response:
    return await _archive(access)


async def _folder(request: Request, access: FileAccess) -> Response:
    source, asked = access.source, access.asked
    try:
        found = await access.transfers.ask(access.user, lambda: source.list_files(asked.path, MOST_ROWS))
    except REFUSALS as error:
        raise refusal(error) from None
    panel: Panel = request.app.state.panel
    page = folder_page(source, asked, found, request.app.state.largest_upload)
    fragment = panel.fragment("files/folder.html", {"page": page}, access.cluster.name)
    frame = await run_in_threadpool(cluster_frame, request, access.cluster, access.visitor)
    # News would have the folder looked at again after each pass.
    return panel.respond(request, fragment, replace(frame, live=""))


async def _content(access: FileAccess) -> Response:
    """One file, whatever is in it: kept by a browser, never shown."""

    def begin() -> Download:
        found = access.source.read_file(access.asked.path)
        return Download(access.sent(found.pieces), found.size)

    name = posixpath.basename(access.asked.path)
    return await _answer(access, begin, shown(name), "application/octet-stream")


async def _archive(access: FileAccess) -> Response:
    """All of a folder, as a tar file."""

    def begin() -> Download:
        pieces = access.source.read_folder(access.asked.path)
        first = next(pieces, b"")  # What cannot be read is told before it is begun.

        def whole() -> Iterator[bytes]:
            yield first
            yield from pieces

        return Download(access.sent(whole()))

    name = posixpath.basename(access.asked.path.rstrip("/")) or access.source.title.replace("/", "-")
    return await _answer(access, begin, f"{shown(name)}.tar", "application/x-tar")


async def _answer(access: FileAccess, begin: Callable[[], Download], name: str, kind: str) -> Response:
    try:
        size, pieces = await access.transfers.download(access.user, begin)
    except REFUSALS as error:
        raise refusal(error) from None
    headers = {**_HEADERS, "Content-Disposition": attachment(name)}
    if size is not None:
        headers["Content-Length"] = str(size)
    return _FileResponse(pieces, headers=headers, media_type=kind)


class _FileResponse(StreamingResponse):
    """Lets go of what it sends when whoever is sent it is gone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            cast(Pieces, self.body_iterator).leave()
