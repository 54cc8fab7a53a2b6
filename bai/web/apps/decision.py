"""Who may open an app: from what a request says, which app it asks for and who asks, to what becomes of it.
Pure.

Apps are of one site with each other, and run what their sessions' owners like: what another one has a browser
send is not told from what its own pages send by cookies, so it is told by what browsers say of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bai.web.auth.roles import ANONYMOUS, Principal, Role

if TYPE_CHECKING:
    from reconciler.values.apps.app import App

NO_SUCH_APP = "There is no such app, or it is not for you."
ELSEWHERE = "This was not sent by a page of this app."
FRAMED = "This app is shown in no page of another site."
LINK_ENDED = "This link has ended: its time is over, or what it was made for was replaced."
NO_ROLE = "You have no role here."
FOR_OWNER = "This app is for the owner of its session."
FOR_OPERATORS = "This app is for the owner of its session, and for operators of its project."
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_FRAMES = frozenset({"iframe", "frame", "embed", "object", "fencedframe"})


Form = Literal["html", "json", "grpc"]
"""A page for people; for programs, or for those that call by gRPC."""


@dataclass(frozen=True, slots=True)
class AppRequest:
    """What a client asks. `host` with its port, in lower case, and `uri` as the client has said them;
    `origin`, `site`, `mode` and `dest`: what a browser says of where it comes from (`Origin`, `Sec-Fetch-*`),
    empty for what it does not say. `form`: in which an answer of ours is understood."""

    method: str
    host: str
    uri: str
    origin: str = ""
    site: str = ""
    mode: str = ""
    dest: str = ""
    websocket: bool = False
    form: Form = "json"

    @property
    def navigates(self) -> bool:
        """Whether it is for a page of its own in a browser's window, as far as the browser says."""
        return (
            self.method in ("GET", "HEAD")
            and not self.websocket
            and self.mode in ("", "navigate")
            and self.dest in ("", "document")
        )


@dataclass(frozen=True, slots=True)
class LinkVisitor:
    """Who was given a link. `target`: the incarnation of the app that it was made for; `by`: who made it."""

    id: str
    target: str
    by: str
    until: float


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: somebody known, whoever has a link, or nobody. `cookie`: whether a browser says so by itself;
    `stale`: whether it had a login that counts no more."""

    principal: Principal | None = None
    link: LinkVisitor | None = None
    cookie: bool = False
    stale: bool = False


NOBODY = Asker()


@dataclass(frozen=True, slots=True)
class Pass:
    """To the app."""


@dataclass(frozen=True, slots=True)
class Login:
    """Somebody has to say who they are. `stale`: once more."""

    stale: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """With a status of HTTP's. `leave`: whether the login that came along is of no more use."""

    status: int
    why: str
    leave: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """The app is not there yet."""


Decision = Pass | Login | Refuse | Wait
_PASS, _WAIT = Pass(), Wait()


def decide(
    request: AppRequest, origin: str, app: App | None, owners: Collection[str], asker: Asker, now: float
) -> Decision:
    """`origin`: the app's own; `app` None: there is none of this name; `owners`: as `may_open`."""
    if why := foreign(request, origin, cookie=asker.cookie):
        return Refuse(403, why)
    if app is not None and app.access == "public":
        return _ready(app)
    if asker.link is not None:
        if app is None or not link_opens(asker.link, app, now):
            return Refuse(403, LINK_ENDED, leave=True)
        return _ready(app)
    if asker.principal is None:
        return Login(asker.stale)
    return refusal(asker.principal, app, owners) or (_WAIT if app is None else _ready(app))


def refusal(principal: Principal, app: App | None, owners: Collection[str]) -> Refuse | None:
    """Why somebody known may not open it; None where they may."""
    if not principal.bindings:
        return Refuse(403, NO_ROLE)
    if app is None or not _sees(principal, app.project):
        return Refuse(404, NO_SUCH_APP)
    if may_open(principal, app, owners):
        return None
    return Refuse(403, FOR_OWNER if app.access == "owner" else FOR_OPERATORS)


def may_open(principal: Principal, app: App, owners: Collection[str]) -> bool:
    """`owners`: names in lower case by which the session's owner is known. Who owns a session of a project
    that is not theirs to see any more does not open it, nor does who has not said who they are."""
    if app.access == "public":
        return True
    if principal.name == ANONYMOUS or not _sees(principal, app.project):
        return False
    if app.access == "project" or principal.name.lower() in owners:
        return True
    return app.access == "operators" and principal.may(Role.operator, app.project)


def link_opens(link: LinkVisitor, app: App, now: float) -> bool:
    """Whether it was made for this very session or service, and is not over."""
    return bool(app.incarnation) and link.target == app.incarnation and now < link.until


def foreign(request: AppRequest, origin: str, *, cookie: bool) -> str:
    """Why a request is another page's doing; empty where it is not. `cookie`: whether it counts by what a
    browser sends by itself: then who would have to say where it comes from, and does not, is refused."""
    if request.websocket:
        silent = not request.origin and not request.site and not cookie
        ours = request.origin == origin and request.site in ("", "same-origin")
        return "" if silent or ours else ELSEWHERE
    # Where pages say `Referrer-Policy: no-referrer`, their own forms come from "null".
    hidden = request.origin == "null" and request.site == "same-origin"
    if request.origin not in ("", origin) and not hidden:
        return ELSEWHERE
    if request.site in ("same-origin", "none"):
        return ""
    if request.site:
        if request.dest in _FRAMES:
            return FRAMED
        top = request.mode == "navigate" and request.dest == "document" and request.navigates
        return "" if top else ELSEWHERE
    return ELSEWHERE if cookie and not request.origin and request.method not in _READING else ""


def _sees(principal: Principal, project: str) -> bool:
    return principal.projects is None or project in principal.projects


def _ready(app: App) -> Decision:
    return _PASS if app.ready else _WAIT
