"""The cookie of an app's host: who somebody is, or with which link they came, sealed for that host alone.

What it is worth is asked anew with each request. No app gets to see it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from bai.web.panel.access.cookies import (
    LARGEST,
    LOGIN,
    CookieSealer,
    SealedBox,
    TooLong,
    full_name,
    single_cookie,
)
from bai.web.panel.login.routes import BROWSER

APP = "bai-app"
"""The name of the cookie; by HTTPS with `__Host-` before it."""
BEGUN = "bai-app-login"
"""The cookie of a browser that is on its way to log in."""
LONGEST = 31 * 86_400
"""Seconds for which any of them counts: links last up to 30 days."""
_BOXES = 4096
_OURS = frozenset(
    full_name(name, secure=secure).encode()
    for name in (APP, BEGUN, LOGIN, BROWSER)
    for secure in (False, True)
)
PREFIX_OF_PORT = "p{port}-"
"""What the names of an app's cookies begin with in a browser, where the app is reached by a port: browsers
send all cookies of a host to all its ports."""


def cookie_name(name: str, port: int) -> str:
    """Of one of ours, for an app at this port of a host; 0: at a name of its own."""
    return f"{name}-{port}" if port else name


@dataclass(frozen=True, slots=True)
class AppLogin:
    """What is sealed. `value`: a token; what is kept of an identity; a name and groups that a proxy said; the
    id, target and maker of a link. `until` in seconds since the epoch."""

    kind: Literal["token", "identity", "proxy", "link"]
    value: Sequence[Any]
    until: float

    def packed(self) -> list[Any]:
        return [self.kind, list(self.value), self.until]


class AppCookies:
    """Seals and opens them. A box for each host is made when it is first asked for."""

    def __init__(self, sealer: CookieSealer) -> None:
        @lru_cache(maxsize=_BOXES)
        def box(host: str) -> SealedBox:
            return sealer.box(f"app {host}", LONGEST)

        self._box = box

    def seal(self, host: str, login: AppLogin) -> str:
        """Raises TooLong."""
        sealed = self._box(host).seal(zlib.compress(json.dumps(login.packed()).encode(), 9))
        if len(sealed) > LARGEST:
            raise TooLong("your login is too long for the cookie of an app: use another token")
        return sealed

    def open(self, host: str, sealed: str) -> AppLogin | None:
        """None for what was not sealed for this host."""
        data = self._box(host).open(sealed) if sealed and len(sealed) <= LARGEST else None
        return AppLogin(*json.loads(zlib.decompress(data))) if data is not None else None


def cookie_of(sent: Sequence[bytes], name: str, *, secure: bool) -> str:
    """The value of ours, of `Cookie` headers; empty without one, and where there are two."""
    return single_cookie(sent, full_name(name, secure=secure)) if sent else ""


def without_ours(sent: Sequence[bytes]) -> bytes:
    """What the app gets of `Cookie` headers: all of them but ours, byte by byte as they came."""
    whole = b"; ".join(sent)
    if b"bai" not in whole:
        return whole
    parts = whole.split(b";")
    kept = [part for part in parts if part.partition(b"=")[0].strip(b" \t") not in _OURS]
    return whole if len(kept) == len(parts) else b";".join(kept).strip(b" \t")


def of_port(sent: Sequence[bytes], port: int) -> bytes:
    """What the app at this port gets of `Cookie` headers: those that it has set itself, as it has named
    them."""
    prefix = PREFIX_OF_PORT.format(port=port).encode()
    parts = (part.strip(b" \t") for part in b";".join(sent).split(b";"))
    own = (part.removeprefix(prefix) for part in parts if part.startswith(prefix))
    return b"; ".join(part for part in own if b"=" in part)


def set_cookie(name: str, value: str, lifetime: float, *, secure: bool) -> tuple[bytes, bytes]:
    """A header. Kept for so many seconds; an empty one is taken away."""
    parts = [
        f"{full_name(name, secure=secure)}={value}", "HttpOnly", f"Max-Age={int(lifetime) if value else 0}",
        "Path=/", "SameSite=lax", *(["Secure"] if secure else []),
    ]  # fmt: skip
    return b"set-cookie", "; ".join(parts).encode()
