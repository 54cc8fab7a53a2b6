"""What the gate answers below `/.bai/` of each app's host: where a login comes to its end, where a link leads
to, and where one leaves. None of it reaches an app.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool

from bai.web.apps.answers import Answer, Notice, notice, redirect
from bai.web.apps.app_cookies import APP, BEGUN, AppCookies, AppLogin, cookie_name, cookie_of, set_cookie
from bai.web.apps.codes_and_links import AppLinks, LoginCodes
from bai.web.apps.decision import ELSEWHERE, LINK_ENDED, Asker, LinkVisitor, foreign, link_opens, refusal
from bai.web.apps.request_head import RESERVED, onward_path
from bai.web.panel.access.cookies import BEGUN_LIFETIME, CookieSealer, TooLong
from reconciler.values.records import Audit
from schemas.problems.errors.base import BaiError

if TYPE_CHECKING:
    from bai.web.apps.request_head import RequestHead
    from bai.web.apps.table import FoundApp
    from reconciler.values.apps.app import App

OPEN, LINK, LEAVE = f"{RESERVED}open", f"{RESERVED}link", f"{RESERVED}leave"
LONGEST_ONWARD = 500
"""Characters, quoted, of an address that a login leads back to: providers bound the length of what they carry
along (`code_flow.LONGEST_NEXT`)."""
_LONGEST_QUERY = 10_000
_OPEN_APP = "Open the app"
_NOTHING = "There is nothing here"


@dataclass(frozen=True, slots=True)
class ReservedRequest:
    """A request for one of these paths."""

    head: RequestHead
    found: FoundApp
    asker: Asker

    @property
    def host(self) -> str:
        return self.head.request.host

    @property
    def secure(self) -> bool:
        return self.found.secure

    def cookie(self, name: str) -> str:
        """One of ours, as it is named here."""
        return cookie_name(name, self.found.port)

    def field(self, name: str) -> str:
        """Of the query; empty for none, and for two."""
        query = self.head.request.uri.partition("?")[2]
        if len(query) > _LONGEST_QUERY:
            return ""
        values = [value for key, value in parse_qsl(query) if key == name]
        return values[0] if len(values) == 1 else ""


class ReservedPaths:
    """`clock`: seconds since the epoch. `public_url`: of the panel, where people log in; empty where that is
    not said."""

    def __init__(
        self, sealer: CookieSealer, cookies: AppCookies, public_url: str,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._cookies, self.public_url, self._clock = cookies, public_url, clock
        self._codes, self._links = LoginCodes(sealer, clock), AppLinks(sealer)

    def lead_to_login(self, head: RequestHead, found: FoundApp) -> Answer:
        """To the panel, and from there back; the browser remembers that it has begun."""
        host, secure = head.request.host, found.secure
        held = self._codes.browser_cookie(
            host, cookie_of(head.cookies, cookie_name(BEGUN, found.port), secure=secure)
        )
        onward = found.origin(host) + onward_path(head.request.uri)
        if len(quote(onward, safe="")) > LONGEST_ONWARD:
            onward = found.origin(host) + "/"
        query = urlencode({"to": onward, "browser": self._codes.browser(host, held)})
        cookie = set_cookie(cookie_name(BEGUN, found.port), held, BEGUN_LIFETIME, secure=secure)
        return redirect(f"{self.public_url}/apps/open?{query}", (cookie,))

    async def answer(self, asked: ReservedRequest) -> Answer:
        """Whom it lets in nowhere does not hear whether there is such an app."""
        request = asked.head.request
        path, origin = request.uri.partition("?")[0], asked.found.origin(asked.host)
        if request.websocket or foreign(request, origin, cookie=True):
            return notice(403, Notice(ELSEWHERE), form=request.form)
        if path == OPEN and request.method == "GET" and request.navigates:
            return self._open(asked)
        if path == LINK and request.method == "GET" and request.navigates:
            return await self._link(asked)
        if path == LEAVE and request.method in ("GET", "POST"):
            return self._leave(asked)
        return notice(404, Notice(_NOTHING, onward=(_OPEN_APP, "/")), form=request.form)

    def _open(self, asked: ReservedRequest) -> Answer:
        begun = cookie_of(asked.head.cookies, asked.cookie(BEGUN), secure=asked.secure)
        try:
            redeemed = self._codes.redeem(asked.host, asked.field("code"), begun)
            return self._let_in(asked, redeemed.login, onward_path(redeemed.path))
        except (PermissionError, TooLong) as error:
            said = Notice("You are not logged in", [f"{error}."], onward=("Try again", "/"))
            return notice(403, said, form=asked.head.request.form)

    async def _link(self, asked: ReservedRequest) -> Answer:
        app, form = asked.found.app, asked.head.request.form
        link = self._links.open(asked.host, asked.field("token"))
        if app is None or link is None or not link_opens(link, app, self._clock()):
            return notice(403, Notice(LINK_ENDED), form=form)
        principal = asked.asker.principal
        if principal is not None and refusal(principal, app, asked.found.owners) is None:
            return redirect("/")  # They are more than a link's.
        if self._links.used.first(link.id, link.until, self._clock()):
            try:
                await run_in_threadpool(_write_down, asked, app, link)
            except BaiError:
                self._links.used.forget(link.id)
                said = Notice("Not yet", ["That this link is used cannot be written down just now."], 5)
                return notice(503, said, form=form)
        login = AppLogin("link", (link.id, link.target, link.by), link.until)
        return self._let_in(asked, login, "/")

    def _leave(self, asked: ReservedRequest) -> Answer:
        form = asked.head.request.form
        if asked.head.request.method == "GET":
            return notice(200, Notice("Log out of this app?", leave=True), form=form)
        gone = tuple(set_cookie(asked.cookie(name), "", 0, secure=asked.secure) for name in (APP, BEGUN))
        said = Notice("You are logged out of this app", onward=(_OPEN_APP, "/"))
        return notice(200, said, gone, form="html")

    def _let_in(self, asked: ReservedRequest, login: AppLogin, path: str) -> Answer:
        sealed = self._cookies.seal(asked.host, login)
        lifetime = max(0.0, login.until - self._clock())
        return redirect(path, (set_cookie(asked.cookie(APP), sealed, lifetime, secure=asked.secure),))


def _write_down(asked: ReservedRequest, app: App, link: LinkVisitor) -> None:
    """Raises StoreError."""
    cluster = asked.found.site.cluster
    try:
        peer = str(ipaddress.ip_address(asked.head.peer))
    except ValueError:
        peer = "an address that is not known"
    workspace = cluster.loop.workspace
    cause = f"app {app.name}: first opened from {peer}, by a link of {link.by}"
    entry = Audit("open-link", app.identity, workspace.clock.now(), cause, f"a link of {link.by}")
    workspace.store.record_audit(cluster.name, entry)
