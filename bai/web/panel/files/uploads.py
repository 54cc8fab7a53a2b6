"""Files that a page sends: the only requests whose bodies are large, and so with bounds of their own
(`request_limits`, `http_protocol`). What refuses them says so in JSON, for the script that sends.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from bai.web.dependencies import error_words
from bai.web.panel.access.forms import require_form_token
from bai.web.panel.access.same_origin import require_same_origin
from bai.web.panel.access.visitor import LoginNeeded, PageViewer
from bai.web.panel.files.access import REFUSALS, FileAccess, SessionAccess, VolumeAccess, refusal
from bai.web.panel.files.routes import SESSION, SHARED_VOLUME, VOLUME
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError
from schemas.values.naturals import parse_natural

TOKEN_HEADER = "Bai-Form-Token"


class UploadRoute(APIRoute):
    """Refuses in JSON, also who has to log in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        take = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await take(request)
            except LoginNeeded:
                return JSONResponse({"detail": "log in again"}, 401)
            except CommandError as error:
                return JSONResponse({"detail": error_words(error)}, 404)
            except BaiError as error:
                refused = refusal(error)
                return JSONResponse({"detail": refused.detail}, refused.status_code)

        return handle


def require_own_page(request: Request, _visitor: PageViewer) -> None:
    """Answers 403 to what no page of this login has sent, before anything is looked for."""
    require_same_origin(request)
    require_form_token(request, request.headers.get(TOKEN_HEADER, ""))


router = APIRouter(route_class=UploadRoute, include_in_schema=False, dependencies=[Depends(require_own_page)])


@router.post(SESSION)
async def send_to_session(request: Request, access: SessionAccess) -> Response:
    return await _take(request, access)


@router.post(VOLUME)
@router.post(SHARED_VOLUME)
async def send_to_volume(request: Request, access: VolumeAccess) -> Response:
    return await _take(request, access)


async def _take(request: Request, access: FileAccess) -> Response:
    size, path = _body_size(request), access.asked.file_path
    try:
        await access.transfers.upload(
            access.user, request.stream(), lambda data: access.receive(path, size, data)
        )
    except REFUSALS as error:
        raise refusal(error, status=409) from None
    return Response(status_code=204)


def _body_size(request: Request) -> int:
    """Known before it comes. Answers 411 otherwise."""
    found = parse_natural(request.headers.get("content-length", "").encode())
    if found is None:
        raise HTTPException(411, "its size is not said")
    return found
