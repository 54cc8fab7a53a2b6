"""Who asks for an app: by the cookie of the app's host, or a bearer token of bai's. What they may is asked of
the access file as it is at each request; what a cookie has is opened once, and known for a while.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from bai.web.apps.app_cookies import APP, AppCookies, AppLogin, cookie_name, cookie_of
from bai.web.apps.decision import NOBODY, Asker, LinkVisitor
from bai.web.auth.bearer import bearer, is_signed
from bai.web.auth.grants import Identity
from bai.web.auth.oidc import OidcAuthenticator
from bai.web.auth.proxy import ProxyAuthenticator
from bai.web.auth.roles import Access, Authenticator, Principal, authenticate
from bai.web.auth.static_tokens import PREFIX
from bai.web.panel.access.kept_identity import KeptIdentity, principal_of, provider_of

if TYPE_CHECKING:
    from bai.web.apps.request_head import RequestHead

_MOST_KNOWN = 4096
_STALE = Asker(cookie=True, stale=True)


@dataclass(frozen=True, slots=True)
class Visit:
    """Who asks, and what of `Authorization` is the app's: empty where it was for us."""

    asker: Asker
    authorization: bytes


@dataclass(slots=True)
class _KnownLogin:
    """What a cookie has. `asker` holds for as long as the access file says what it said to `authenticators`,
    and until `until`."""

    login: AppLogin
    authenticators: Sequence[Authenticator] | None = None
    asker: Asker = field(default=_STALE)
    until: float = 0.0


class AppVisitors:
    """`clock`: seconds since the epoch."""

    def __init__(self, access: Access, cookies: AppCookies, clock: Callable[[], float] = time.time) -> None:
        self._access, self._cookies, self._clock = access, cookies, clock
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], _KnownLogin] = OrderedDict()

    async def visit(self, head: RequestHead, *, secure: bool) -> Visit:
        """A token of bai's counts before a cookie. One that is good for nothing never becomes the app's."""
        text = head.authorization.decode("latin-1")
        token = bearer({"authorization": text}) if text else ""
        if token:
            authenticators = self._access.authenticators
            found = await self._owner(token, authenticators)
            if found is not None:
                return Visit(Asker(found), b"")
            if _is_ours(token, authenticators):
                return Visit(NOBODY, b"")
        sealed = cookie_of(head.cookies, cookie_name(APP, head.port), secure=secure)
        asker = await self._of_cookie(head.request.host, sealed) if sealed else NOBODY
        return Visit(asker, head.authorization)

    async def _of_cookie(self, host: str, sealed: str) -> Asker:
        known = self._opened(host, sealed)
        now = self._clock()
        if known is None or now >= known.login.until:
            return _STALE
        authenticators = self._access.authenticators
        if known.authenticators is authenticators and now < known.until:
            return known.asker
        known.asker, known.until = await self._judged(known.login, authenticators)
        known.authenticators = authenticators
        return known.asker

    def _opened(self, host: str, sealed: str) -> _KnownLogin | None:
        key = host, sealed
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        login = self._cookies.open(host, sealed)
        if login is None:
            return None
        with self._lock:
            known = self._known.setdefault(key, _KnownLogin(login))
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
            return known

    async def _judged(self, login: AppLogin, authenticators: Sequence[Authenticator]) -> tuple[Asker, float]:
        """Who that is as of now, and until when at the latest nobody has to be asked again."""
        if login.kind == "link":
            identifier, target, by = login.value
            return Asker(link=LinkVisitor(identifier, target, by, login.until), cookie=True), login.until
        if login.kind == "token":
            # What is signed is asked for each time: whoever checks it knows for how long it is known.
            token = str(login.value[0])
            found = await self._owner(token, authenticators)
            return _of(found), 0.0 if is_signed(token) else login.until
        if login.kind == "identity":
            return self._kept(KeptIdentity(*login.value), login.until)
        user, groups = login.value
        judges = (each for each in authenticators if isinstance(each, ProxyAuthenticator))
        proxy = next(judges, None)
        principal = proxy.grants.principal(Identity(user, frozenset(groups))) if proxy is not None else None
        return _of(principal), login.until

    def _kept(self, kept: KeptIdentity, until: float) -> tuple[Asker, float]:
        provider = provider_of(self._access, kept)
        try:
            principal = principal_of(self._access, kept)
        except PermissionError:
            return _STALE, until
        ends = kept.since + provider.client.session if provider is not None else 0.0
        return _of(principal), min(until, ends)

    async def _owner(self, token: str, authenticators: Sequence[Authenticator]) -> Principal | None:
        """Whose token it is; None for nobody's."""
        try:
            if not is_signed(token):
                return self._authenticate(token)
            judges = [each for each in authenticators if isinstance(each, OidcAuthenticator)]
            known = (each.remembered(token) for each in judges)
            found = next((each for each in known if each is not None), None)
            # Only for signed tokens may an identity provider have to be asked.
            return found or await run_in_threadpool(self._authenticate, token)
        except PermissionError:
            return None

    def _authenticate(self, token: str) -> Principal:
        return authenticate(self._access, {"authorization": f"Bearer {token}"}, "")


def _of(principal: Principal | None) -> Asker:
    return _STALE if principal is None else Asker(principal, cookie=True)


def _is_ours(token: str, authenticators: Sequence[Authenticator]) -> bool:
    """Whether it says to be bai's, true or not."""
    judges = (each for each in authenticators if isinstance(each, OidcAuthenticator))
    return token.startswith(PREFIX) or any(each.issued(token) for each in judges)
