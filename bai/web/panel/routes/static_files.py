"""Style sheets, scripts and icons: for everybody, for ever."""

from __future__ import annotations

from fastapi import Request, Response

from bai.web.panel.pages import Panel
from bai.web.panel.routes.page_route import page_router

router = page_router(open_to_all=True)
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


@router.get("/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    panel: Panel = request.app.state.panel
    found = panel.assets.find(f"/assets/{name}")
    if found is None:
        return Response(status_code=404)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {**_HEADERS, "Content-Encoding": "gzip"}
        return Response(found.compressed, media_type=found.media_type, headers=headers)
    return Response(found.data, media_type=found.media_type, headers=_HEADERS)
