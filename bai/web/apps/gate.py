"""The gate: Caddy asks it for each request of each app who may pass, and where to. An ASGI app of three
answers, for a socket that only Caddy reaches; it is asked thousands of times a second, and made for that.

- `/check`: 200 with `Bai-Upstream`, `Bai-Protocol` and for a service `Bai-Balanced`, and what the app gets
  as `Cookie` and `Authorization`
  (`Bai-Cookie`, `Bai-Authorization`; absent where it gets none); or what the client is answered instead,
  of gRPC with a status of HTTP's, which Caddy makes 200, as gRPC has it.
- `/unanswered`: what a client is answered whose app did not.
- `/certificate?domain=`: 200 where there is such an app.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from bai.web.apps.answers import Answer, Headers, Notice, notice
from bai.web.apps.app_cookies import APP, AppCookies, cookie_name, of_port, set_cookie, without_ours
from bai.web.apps.decision import NO_SUCH_APP, Asker, Form, Login, Pass, Refuse, decide
from bai.web.apps.request_head import BadRequest, RequestHead, is_reserved, read_head
from bai.web.apps.reserved_paths import ReservedPaths, ReservedRequest
from bai.web.apps.table import AppTable, FoundApp
from bai.web.apps.visitors import AppVisitors, Visit
from bai.web.auth.roles import Access
from bai.web.cluster_loops import ClusterLoops
from bai.web.dependencies import project_view
from bai.web.panel.access.cookies import CookieSealer
from reconciler.values.apps.app import App
from schemas.problems.errors.base import BaiError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

AGAIN = 5
"""Seconds after which a page that waits comes again."""
_NO_PANEL = "Send a token: without `bai serve --public-url` no browser finds where to log in."
_NOTHING = Answer(404)
_YES = Answer(200)


class Gate:
    """`address_of`: where Caddy reaches an app, as its configuration writes addresses; raises BaiError where
    that cannot be. `clock`: seconds since the epoch."""

    def __init__(
        self, table: AppTable, visitors: AppVisitors, reserved: ReservedPaths,
        address_of: Callable[[App], str], clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._table, self._visitors, self._reserved = table, visitors, reserved
        self._address_of, self._clock = address_of, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = await self._answer(scope)
        length = (b"content-length", str(len(answer.body)).encode())
        headers = [*answer.headers, length]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope) -> Answer:
        path = scope["path"]
        if path == "/certificate":
            return self._certificate(scope["query_string"])
        if path not in ("/check", "/unanswered"):
            return _NOTHING
        try:
            head = read_head(scope["headers"])
        except BadRequest as error:
            return notice(400, Notice("This cannot be asked", [f"{error}."]), form="json")
        host = head.request.host
        found = self._table.at_port(head.port, host) if head.port else self._table.at(host)
        if found is None:
            status = 421 if head.port else 404
            return notice(status, Notice("No app has this address"), form=head.request.form)
        visit = await self._visitors.visit(head, secure=found.secure)
        if is_reserved(head.request.uri):
            return await self._reserved.answer(ReservedRequest(head, found, visit.asker))
        return self._decided(head, found, visit, answered=path == "/check")

    def _decided(self, head: RequestHead, found: FoundApp, visit: Visit, *, answered: bool) -> Answer:
        request, app = head.request, found.app
        origin = found.origin(request.host)
        decision = decide(request, origin, app, found.owners, visit.asker, self._clock())
        match decision:
            case Login(stale):
                return self._login(head, found, stale=stale)
            case Refuse(status, why, leave):
                return _refused(status, why, visit.asker, found, leave=leave, form=request.form)
        assert app is not None
        if not isinstance(decision, Pass):
            return _waiting(found, app, visit.asker, form=request.form)
        if not answered:
            return _unanswered(app, form=request.form)
        try:
            upstream = self._address_of(app)
        except BaiError:
            return _unanswered(app, form=request.form)
        passed: list[tuple[bytes, bytes]] = [
            (b"bai-upstream", upstream.encode()), (b"bai-protocol", app.protocol.encode()),
        ]  # fmt: skip
        if app.kind == "Service":
            passed.append((b"bai-balanced", b"yes"))
        cookies = of_port(head.cookies, found.port) if found.port else without_ours(head.cookies)
        if cookies:
            passed.append((b"bai-cookie", cookies))
        if visit.authorization:
            passed.append((b"bai-authorization", visit.authorization))
        return Answer(200, tuple(passed))

    def _login(self, head: RequestHead, found: FoundApp, *, stale: bool) -> Answer:
        """A page is led to it; what belongs to a page, and programs, are told."""
        request = head.request
        leads = bool(self._reserved.public_url)
        if request.form == "html" and request.navigates and leads:
            return self._reserved.lead_to_login(head, found)
        lines = ["Your login has ended."] if stale else []
        advice = "Load the page again, or send a token." if leads else _NO_PANEL
        said = Notice("Log in to open this app", [*lines, advice])
        return notice(401, said, ((b"www-authenticate", b"Bearer"),), form=request.form)

    def _certificate(self, query: bytes) -> Answer:
        """The port is not known here: any."""
        names = parse_qs(query.decode("latin-1")).get("domain", [])
        known = len(names) == 1 and self._table.has(names[0].lower())
        return _YES if known else _NOTHING


def create_gate(
    loops: ClusterLoops, access: Access, sealer: CookieSealer, public_url: str,
    address_of: Callable[[App], str], *, clock: Callable[[], float] = time.time,
) -> ASGIApp:  # fmt: skip
    """`sealer` and `public_url`: those of the panel, where people log in."""
    cookies = AppCookies(sealer)
    return Gate(
        AppTable(loops), AppVisitors(access, cookies, clock),
        ReservedPaths(sealer, cookies, public_url, clock), address_of, clock,
    )  # fmt: skip


def _refused(status: int, why: str, asker: Asker, found: FoundApp, *, leave: bool, form: Form) -> Answer:
    """A login that is of no more use is taken away."""
    name = cookie_name(APP, found.port)
    gone: Headers = (set_cookie(name, "", 0, secure=found.secure),) if leave else ()
    who = [f"You are {asker.principal.name}."] if asker.principal is not None else []
    title = "There is no such app" if why == NO_SUCH_APP else "This is not for you"
    onward = ("Log in", "/") if leave else None
    said = Notice(title, [why, *who], onward=onward, leave=asker.cookie and not leave)
    return notice(status, said, gone, form=form)


def _waiting(found: FoundApp, app: App, asker: Asker, *, form: Form) -> Answer:
    """Why it waits is for those whom the server knows, as far as it is theirs."""
    service = app.kind == "Service"
    lines = ["No replica of its service is ready." if service else f"Its session is {app.phase}."]
    if asker.principal is not None and app.reason:
        lines.append(project_view(found.site.cluster, asker.principal).redact(app.reason))
    said = Notice("This app is not there yet", lines, AGAIN)
    return notice(503, said, form=form)


def _unanswered(app: App, *, form: Form) -> Answer:
    said = Notice("This app does not answer", [f"Nothing answers on port {app.port} of it yet."], AGAIN)
    return notice(503, said, form=form)
