"""Forms that pages of ours send. What somebody who is logged in sends brings the token of their login along,
so that no other page can send it in their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request
from fastapi.requests import HTTPConnection

from bai.web.panel.access.cookies import CookieSealer, read_cookie
from bai.web.panel.access.same_origin import require_same_origin
from bai.web.panel.access.visitor import PageViewer

MOST_FIELDS = 200
TOKEN = "token"
"""The field with the token of a login."""


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that a page of ours has sent, each once. Answers 400 for anything else, 403 for
    what another site sends."""
    require_same_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    try:
        if kind != "application/x-www-form-urlencoded":
            raise ValueError
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise HTTPException(400, "this is no form") from None


def require_form_token(request: HTTPConnection, token: str) -> None:
    """Answers 403 to what a page has sent that was made for another login."""
    sealer: CookieSealer = request.app.state.panel.sealer
    if not sealer.is_form_token(token, read_cookie(request)):
        raise HTTPException(403, "this form is of another login: open the page again")


async def posted_form(request: Request, _visitor: PageViewer) -> Mapping[str, str]:
    """The fields of a form that somebody who is logged in has sent, without their token. Answers 400 and 403
    as `read_form`, and 403 to what was made for another login."""
    fields = await read_form(request)
    require_form_token(request, fields.pop(TOKEN, ""))
    return fields


PostedForm = Annotated[Mapping[str, str], Depends(posted_form)]
