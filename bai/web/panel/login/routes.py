"""Logging in, and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from bai.web.auth.login_providers import LoginProvider, login_providers
from bai.web.auth.oidc import IssuerUnavailable
from bai.web.panel.access.cookies import BEGUN_LIFETIME, TooLong, read_cookie, set_cookie
from bai.web.panel.access.forms import TOKEN, read_form, require_form_token
from bai.web.panel.access.kept_identity import kept_identity, provider_of, seal_identity
from bai.web.panel.access.same_origin import local_path
from bai.web.panel.access.visitor import PageViewer, find_principal
from bai.web.panel.links import path
from bai.web.panel.login.code_flow import CALLBACK, Busy, CodeFlow, ProviderAnswer, logout_address
from bai.web.panel.login.public_address import public_address
from bai.web.panel.pages import Frame, Panel
from bai.web.panel.routes.page_route import page_router

router = page_router(open_to_all=True)
BROWSER = "bai-login"
"""The cookie of a browser that logs in at a provider."""
_ENDED = "Your login has ended, or your token was taken back."
_BUSY = "Many log in at this moment: try again."
Text = Annotated[str, Query(max_length=2000)]
LongText = Annotated[str, Query(max_length=8000)]


@router.get("/")
async def home(request: Request, visitor: PageViewer) -> Response:
    """The only cluster, or a list of them."""
    panel: Panel = request.app.state.panel
    names = tuple(request.app.state.loops.clusters)
    if len(names) == 1:
        return RedirectResponse(path("clusters", names[0]), 303)
    frame = Frame(
        clusters=names, user=visitor.principal.name, role=visitor.role, guest=visitor.guest,
        form_token=panel.sealer.form_token(visitor.sealed),
    )  # fmt: skip
    return panel.respond(request, panel.fragment("clusters.html", {"clusters": names}), frame)


@router.get("/login")
async def login_form(
    request: Request, next: Text = "/", ended: bool = False, still: int | None = None
) -> Response:
    """`still`: the number of the provider at which they are logged in all the same."""
    note = ""
    if still is not None:
        note = f"You are logged out here. At {_provider(request, still).label} you may be logged in still."
    return _form(request, local_path(next), _ENDED if ended else "", note=note)


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


@router.get(CALLBACK)
def finish_at_provider(
    request: Request,
    state: LongText = "",
    code: LongText = "",
    iss: Text = "",
    error: Text = "",
    error_description: LongText = "",
) -> Response:
    """Somebody comes back: who they are is kept in a cookie, if they may anything here."""
    flow: CodeFlow = request.app.state.code_flow
    panel: Panel = request.app.state.panel
    answer = ProviderAnswer(state, code, iss, error, error_description)
    where = "/"
    try:
        begun = flow.begun(answer, read_cookie(request, BROWSER))
        where = local_path(begun.next)
        known = login_providers(request.app.state.access)
        provider = next((each for each in known if each.reading == begun.reading), None)
        if provider is None:
            raise PermissionError("this identity provider does not count here any more")
        identity = flow.finish(provider, begun, answer)
        if not provider.authenticator.grants.principal(identity).bindings:
            raise PermissionError(f"{identity.user} has no role here")
        sealed = seal_identity(panel.sealer, provider, identity)
    except (PermissionError, TooLong) as wrong:
        return _form(request, where, str(wrong), 403)
    except IssuerUnavailable as wrong:
        return _form(request, where, str(wrong), 503)
    except Busy:
        return _form(request, where, _BUSY, 503)
    made = RedirectResponse(where, 303)
    set_cookie(request, made, sealed, lifetime=provider.client.session)
    return made


@router.get("/login/oidc/{number:int}")
def begin_at_provider(request: Request, number: int, next: Text = "/") -> Response:
    """Leads to a provider, and has the browser remember that it began."""
    flow: CodeFlow = request.app.state.code_flow
    provider, where = _provider(request, number), local_path(next)
    address = public_address(request, flow.public_url)
    cookie = flow.browser_cookie(read_cookie(request, BROWSER))
    try:
        answer = RedirectResponse(flow.begin(provider, cookie, address, where), 303)
    except IssuerUnavailable as wrong:
        return _form(request, where, str(wrong), 503)
    set_cookie(request, answer, cookie, BROWSER, BEGUN_LIFETIME)
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    """Ends the login here, and then at the provider where it was made at one."""
    fields = await read_form(request)
    require_form_token(request, fields.get(TOKEN, ""))
    panel: Panel = request.app.state.panel
    kept = kept_identity(panel.sealer, read_cookie(request))
    provider = provider_of(request.app.state.access, kept)
    where = "/login" if provider is None else path("login", "oidc", str(provider.number), "leave")
    answer = RedirectResponse(where, 303)
    set_cookie(request, answer, "")
    return answer


@router.get("/login/oidc/{number:int}/leave")
async def leave_provider(request: Request, number: int) -> Response:
    """A page that goes on to the provider by itself: a form's answer could not lead there, by our policy."""
    provider, onward = _provider(request, number), path("login", "oidc", str(number), "logout")
    panel: Panel = request.app.state.panel
    fragment = panel.fragment("leave.html", {"label": provider.label, "onward": onward})
    answer = panel.respond(request, fragment, Frame())
    answer.headers["Refresh"] = f"0; url={onward}"
    return answer


@router.get("/login/oidc/{number:int}/logout")
def log_out_at_provider(request: Request, number: int) -> Response:
    flow: CodeFlow = request.app.state.code_flow
    provider = _provider(request, number)
    try:
        where = logout_address(provider, public_address(request, flow.public_url))
    except IssuerUnavailable:
        where = ""
    return RedirectResponse(where or path("login", still=str(number)), 303)


def _provider(request: Request, number: int) -> LoginProvider:
    known = login_providers(request.app.state.access)
    found = next((each for each in known if each.number == number), None)
    if found is None:
        raise HTTPException(404, "there is no such identity provider")
    return found


def _form(request: Request, where: str, why: str, status: int = 200, *, note: str = "") -> Response:
    panel: Panel = request.app.state.panel
    providers = [
        (each.label, path("login", "oidc", str(each.number), next=where if where != "/" else ""))
        for each in login_providers(request.app.state.access)
    ]
    values = {"next": where, "error": why, "note": note, "providers": providers}
    return panel.respond(request, panel.fragment("login.html", values), Frame(), status)
