"""Logging in, and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from bai.web.panel.access.cookies import TooLong, set_cookie
from bai.web.panel.access.forms import TOKEN, read_form, require_form_token
from bai.web.panel.access.same_origin import local_path
from bai.web.panel.access.visitor import PageViewer, find_principal
from bai.web.panel.links import path
from bai.web.panel.pages import Frame, Panel
from bai.web.panel.routes.page_route import page_router

router = page_router(open_to_all=True)
_ENDED = "Your login has ended, or your token was taken back."
Text = Annotated[str, Query(max_length=2000)]


@router.get("/")
async def home(request: Request, visitor: PageViewer) -> Response:
    """The only cluster, or a list of them."""
    panel: Panel = request.app.state.panel
    names = tuple(request.app.state.loops.clusters)
    if len(names) == 1:
        return RedirectResponse(path("clusters", names[0]), 303)
    frame = Frame(
        clusters=names, user=visitor.principal.name, role=visitor.role,
        form_token=panel.sealer.form_token(visitor.sealed),
    )  # fmt: skip
    return panel.respond(request, panel.fragment("clusters.html", {"clusters": names}), frame)


@router.get("/login")
async def login_form(request: Request, next: Text = "/", ended: bool = False) -> Response:
    return _form(request, local_path(next), _ENDED if ended else "")


@router.post("/login")
async def login(request: Request) -> Response:
    """Keeps the token in a cookie, if it is somebody's."""
    fields = await read_form(request)
    panel: Panel = request.app.state.panel
    token, where = fields.get("credential", "").strip(), local_path(fields.get("next", "/"))
    try:
        if not token:
            raise PermissionError("type a token")
        await find_principal(request.app.state.access, request, token)
        sealed = panel.sealer.seal(token)
    except (PermissionError, TooLong) as error:
        return _form(request, where, str(error), 403)
    answer = RedirectResponse(where, 303)
    set_cookie(request, answer, sealed)
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    fields = await read_form(request)
    require_form_token(request, fields.get(TOKEN, ""))
    answer = RedirectResponse("/login", 303)
    set_cookie(request, answer, "")
    return answer


def _form(request: Request, where: str, why: str, status: int = 200) -> Response:
    panel: Panel = request.app.state.panel
    return panel.respond(
        request, panel.fragment("login.html", {"next": where, "error": why}), Frame(), status
    )
