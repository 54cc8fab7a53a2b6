"""The cookie of a browser: the token that somebody has logged in with, sealed, so that only this server reads
it, and replicas with the same key.

Fernet (AES-128-CBC and HMAC-SHA256) seals; it also says when. What is sealed is worth nothing elsewhere: the
API takes no cookies.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

LIFETIME = 12 * 3600
"""Seconds for which somebody stays logged in."""
LARGEST = 4000
"""Characters of a cookie that every browser keeps."""
_PLAIN, _SECURE = "bai", "__Host-bai"


class TooLong(ValueError):
    """A token does not fit into a cookie."""


class CookieSealer:
    """`secret`: the same for all replicas; without one, cookies end with this process."""

    def __init__(self, secret: str = "") -> None:
        key = hashlib.sha256(secret.encode()).digest() if secret else secrets.token_bytes(32)
        self._fernet = Fernet(base64.urlsafe_b64encode(key))
        self._form_key = hmac.digest(key, b"form token", "sha256")

    def seal(self, token: str) -> str:
        """Raises TooLong."""
        sealed = self._fernet.encrypt(token.encode()).decode()
        if len(sealed) > LARGEST:
            raise TooLong(f"the token is too long for a cookie: {len(token)} characters")
        return sealed

    def open(self, sealed: str) -> str:
        """The token; empty where it was not sealed here, or too long ago."""
        try:
            return self._fernet.decrypt(sealed.encode(), ttl=LIFETIME).decode()
        except (InvalidToken, UnicodeError):
            return ""

    def form_token(self, sealed: str) -> str:
        """What forms of whoever has this cookie bring along."""
        return hmac.new(self._form_key, sealed.encode(), "sha256").hexdigest()

    def is_form_token(self, text: str, sealed: str) -> bool:
        return hmac.compare_digest(text.encode(), self.form_token(sealed).encode())


def is_encrypted(request: HTTPConnection) -> bool:
    """Whether the browser speaks HTTPS, with us or with a proxy before us. Who lies about that weakens only a
    cookie of their own."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return request.url.scheme in ("https", "wss") or forwarded == "https"


def read_cookie(request: HTTPConnection) -> str:
    """As it is sealed; empty without one."""
    return request.cookies.get(_SECURE if is_encrypted(request) else _PLAIN, "")


def set_cookie(request: Request, response: Response, sealed: str) -> None:
    """Kept for LIFETIME; an empty one is taken away."""
    secure = is_encrypted(request)
    response.set_cookie(
        _SECURE if secure else _PLAIN, sealed, max_age=LIFETIME if sealed else 0, path="/",
        secure=secure, httponly=True, samesite="lax",
    )  # fmt: skip
