"""Where the panel lets somebody in at an app's host: a page of the panel, so that the login is the panel's.

It leads nowhere but to apps of this server, and only with a code that is good there, for the browser that
began.
"""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import urlencode, urlsplit

from fastapi import HTTPException, Query, Request, Response

from bai.web.apps.app_cookies import AppLogin
from bai.web.apps.codes_and_links import LoginCodes
from bai.web.apps.decision import NO_SUCH_APP, refusal
from bai.web.apps.request_head import onward_path
from bai.web.apps.reserved_paths import OPEN
from bai.web.apps.table import AppTable, FoundApp
from bai.web.auth.grants import Identity
from bai.web.auth.proxy import ProxyAuthenticator
from bai.web.auth.roles import Access
from bai.web.panel.access.cookies import LIFETIME, CookieSealer
from bai.web.panel.access.kept_identity import kept_identity, provider_of
from bai.web.panel.access.visitor import LoginNeeded, PageViewer, Visitor
from bai.web.panel.pages import Frame, Panel
from bai.web.panel.routes.page_route import page_router
from reconciler.values.apps.app import App

router = page_router()
PROXY_LIFETIME = 3600
"""Seconds for which an app believes what a proxy has said, which it says to the panel with each request."""
Address = Annotated[str, Query(max_length=2000)]
Browser = Annotated[str, Query(pattern=r"^[\w-]{43}$")]


@router.get("/apps/open")
async def open_app(request: Request, visitor: PageViewer, to: Address, browser: Browser) -> Response:
    """`to`: the address in an app that somebody wants; `browser`: of whom the app's host remembers that they
    have begun there."""
    mode, dest = (request.headers.get(f"sec-fetch-{name}", "") for name in ("mode", "dest"))
    if mode not in ("", "navigate") or dest not in ("", "document"):
        raise HTTPException(403, "an app is opened in a window of its own")
    found, path = _app_at(request.app.state.apps, to)
    if found is None or found.app is None:
        raise HTTPException(404, NO_SUCH_APP)
    if visitor.guest:
        raise LoginNeeded(stale=False)  # Everybody may look, and nobody in particular opens apps.
    refused = refusal(visitor.principal, found.app, found.owners)
    if refused is not None:
        raise HTTPException(refused.status, refused.why)
    sealer: CookieSealer = request.app.state.panel.sealer
    login = _login_of(request, visitor, sealer)
    code = LoginCodes(sealer).issue(found.app.host, browser, login, path)
    return _lead_on(request, found.app, f"{found.app.url}{OPEN}?{urlencode({'code': code})}")


def _lead_on(request: Request, app: App, onward: str) -> Response:
    """A page that goes on by itself: the answer to a form, as that of a login, leads nowhere else, by our
    policy."""
    panel: Panel = request.app.state.panel
    fragment = panel.fragment("opening.html", {"app": f"{app.name} of {app.session}", "onward": onward})
    answer = panel.respond(request, fragment, Frame())
    answer.headers["Refresh"] = f"0; url={onward}"
    return answer


def _app_at(table: AppTable, address: str) -> tuple[FoundApp | None, str]:
    """The app of an address, and the path in it. Nothing of the address but this leads anywhere."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None, "/"
    found = table.addressed(parts.netloc.lower()) if parts.scheme in ("http", "https") else None
    path = address.partition("//")[2].partition("/")[2]
    return found, onward_path(f"/{path}")


def _login_of(request: Request, visitor: Visitor, sealer: CookieSealer) -> AppLogin:
    """What the app's cookie has: no more than the panel's, and for no longer."""
    access: Access = request.app.state.access
    token = sealer.open(visitor.sealed) if visitor.sealed else ""
    if token:
        return AppLogin("token", (token,), sealer.sealed_at(visitor.sealed) + LIFETIME)
    kept = kept_identity(sealer, visitor.sealed) if visitor.sealed else None
    provider = provider_of(access, kept)
    if kept is not None and provider is not None:
        value = (kept.reading, kept.user, list(kept.groups), dict(kept.claims), kept.since)
        return AppLogin("identity", value, kept.since + min(provider.client.session, LIFETIME))
    identity = _named_by_proxy(request, access)
    if identity is None or visitor.sealed:
        raise LoginNeeded(stale=bool(visitor.sealed))
    return AppLogin("proxy", (identity.user, sorted(identity.groups)), time.time() + PROXY_LIFETIME)


def _named_by_proxy(request: Request, access: Access) -> Identity | None:
    peer = request.client.host if request.client else ""
    headers = {name.lower(): value for name, value in request.headers.items()}
    for each in access.authenticators:
        if isinstance(each, ProxyAuthenticator) and (found := each.identity(headers, peer)) is not None:
            return each.grants.needed_of(found)
    return None
