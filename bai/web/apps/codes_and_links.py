"""What lets somebody in at an app's host by an address: the code of a login, which is good once, for a minute
and in the browser that began; and a link, which is good until its end and for what it was made for.

Both are sealed for one host. Nothing is kept of them but which were used.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from bai.web.apps.app_cookies import LONGEST, AppLogin
from bai.web.apps.decision import LinkVisitor
from bai.web.panel.access.cookies import BEGUN_LIFETIME, CookieSealer, SealedBox

CODE_LIFETIME = 60
"""Seconds between the panel's answer and the request that it leads to."""
LONGEST_CODE = 8000
"""Characters."""
_BOXES = 1024
_MOST_USED = 10_000


class UsedIds:
    """Ids that were seen, until they count for nothing. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, float] = {}
        self._full = _MOST_USED

    def first(self, identifier: str, until: float, now: float) -> bool:
        """Whether this is its first use."""
        with self._lock:
            if identifier in self._known:
                return False
            if len(self._known) >= self._full:
                self._known = {name: end for name, end in self._known.items() if end > now}
                self._full = max(_MOST_USED, 2 * len(self._known))
            self._known[identifier] = until
            return True

    def forget(self, identifier: str) -> None:
        with self._lock:
            self._known.pop(identifier, None)


@dataclass(frozen=True, slots=True)
class Redeemed:
    """What a code is good for."""

    login: AppLogin
    path: str


class LoginCodes:
    """`clock`: seconds since the epoch."""

    def __init__(self, sealer: CookieSealer, clock: Callable[[], float] = time.time) -> None:
        @lru_cache(maxsize=_BOXES)
        def codes(host: str) -> SealedBox:
            return sealer.box(f"app-code {host}", CODE_LIFETIME)

        @lru_cache(maxsize=_BOXES)
        def browsers(host: str) -> SealedBox:
            return sealer.box(f"app-browser {host}", BEGUN_LIFETIME)

        self._codes, self._browsers, self._clock = codes, browsers, clock
        self._used = UsedIds()

    def browser_cookie(self, host: str, held: str) -> str:
        """Of a browser that has `held`: as it is from now on. Logins in other tabs go on."""
        box = self._browsers(host)
        return box.seal(box.open(held) or secrets.token_bytes(32))

    def browser(self, host: str, cookie: str) -> str:
        """By which the panel knows the browser that has begun; of none without a cookie of ours."""
        box = self._browsers(host)
        return box.derive((box.open(cookie) or secrets.token_bytes(32)).hex())

    def issue(self, host: str, browser: str, login: AppLogin, path: str) -> str:
        value = [secrets.token_urlsafe(16), browser, path, *login.packed()]
        return self._codes(host).seal(zlib.compress(json.dumps(value).encode(), 9))

    def redeem(self, host: str, code: str, cookie: str) -> Redeemed:
        """`cookie`: of the browser that brings it. Raises PermissionError."""
        data = self._codes(host).open(code) if len(code) <= LONGEST_CODE else None
        if data is None:
            raise PermissionError("this login took too long, or was not made for this app")
        identifier, browser, path, kind, value, until = json.loads(zlib.decompress(data))
        if not hmac.compare_digest(browser.encode(), self.browser(host, cookie).encode()):
            raise PermissionError("this login was begun in another browser, or your browser keeps no cookies")
        now = self._clock()
        # Its time is counted in whole seconds, by another clock where there are several replicas.
        if not self._used.first(identifier, now + 2 * CODE_LIFETIME, now):
            raise PermissionError("this login was used already")
        return Redeemed(AppLogin(kind, value, until), path)


class AppLinks:
    """Links that are shared."""

    def __init__(self, sealer: CookieSealer) -> None:
        @lru_cache(maxsize=_BOXES)
        def box(host: str) -> SealedBox:
            return sealer.box(f"app-link {host}", LONGEST)

        self._box = box
        self.used = UsedIds()

    def make(self, host: str, target: str, by: str, until: float) -> str:
        value = [secrets.token_urlsafe(12), target, by, until]
        return self._box(host).seal(json.dumps(value).encode())

    def open(self, host: str, token: str) -> LinkVisitor | None:
        """None for what was not made for this host."""
        data = self._box(host).open(token) if len(token) <= LONGEST_CODE else None
        return LinkVisitor(*json.loads(data)) if data is not None else None
