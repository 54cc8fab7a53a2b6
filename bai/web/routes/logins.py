"""How to log in, and as whom one is."""

from __future__ import annotations

from fastapi import APIRouter, Request

from bai.web.auth.roles import Access, Viewer
from bai.web.dependencies import error_responses
from bai.web.response_models import BindingAnswer, LoginAnswer, OidcClientAnswer, WhoamiAnswer

router = APIRouter(prefix="/api/v1", tags=["logins"])


@router.get("/login", summary="Identity providers, for `bai login`", responses=error_responses())
async def login(request: Request) -> LoginAnswer:
    """For everybody: it is asked by those who have no token yet."""
    access: Access = request.app.state.access
    public = (each for each in access.oidc_clients if not each.secret)
    clients = [OidcClientAnswer(issuer=each.issuer, clientId=each.client_id) for each in public]
    return LoginAnswer(oidc=clients)


@router.get("/whoami", summary="Who asks, and what they may", responses=error_responses())
async def whoami(user: Viewer) -> WhoamiAnswer:
    bindings = [
        BindingAnswer(role=each.role.name, projects=None if each.projects is None else sorted(each.projects))
        for each in user.bindings
    ]
    return WhoamiAnswer(name=user.name, roles=bindings)
