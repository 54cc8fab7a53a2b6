"""The cookie of a browser: the token that somebody has logged in with, or who they are by an identity
provider, sealed, so that only this server reads it, and replicas with the same key.

Fernet (AES-128-CBC and HMAC-SHA256) seals; it also says when. What is sealed is worth nothing elsewhere: the
API takes no cookies. Each purpose has a key of its own: what was sealed for one is nothing to the others.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

LIFETIME = 12 * 3600
"""Seconds for which somebody stays logged in."""
LARGEST = 4000
"""Characters of a cookie that every browser keeps."""
LOGIN = "bai"
"""The name of the cookie; by HTTPS with `__Host-` before it, which no other host can set."""
BEGUN_LIFETIME = 600
"""Seconds in which a login at an identity provider must have come to its end."""


class TooLong(ValueError):
    """What somebody logs in with does not fit into a cookie."""


class SealedBox:
    """Seals for one `purpose`. `lifetime` in seconds."""

    def __init__(self, key: bytes, purpose: str, lifetime: int) -> None:
        own = hmac.digest(key, f"box {purpose}".encode(), "sha256")
        self._fernet = Fernet(base64.urlsafe_b64encode(own))
        self._derivation_key = hmac.digest(own, b"derived", "sha256")
        self._lifetime = lifetime

    def seal(self, data: bytes) -> str:
        return self._fernet.encrypt(data).decode()

    def open(self, sealed: str) -> bytes | None:
        """None for what was not sealed by this box, or too long ago."""
        try:
            return self._fernet.decrypt(sealed.encode(), ttl=self._lifetime)
        except InvalidToken:
            return None

    def derive(self, *words: str) -> str:
        """43 letters that follow from the words, and that nobody else can tell."""
        text = "\0".join(words).encode()
        digest = hmac.digest(self._derivation_key, text, "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class CookieSealer:
    """`secret`: the same for all replicas; without one, cookies end with this process."""

    def __init__(self, secret: str = "") -> None:
        key = hashlib.sha256(secret.encode()).digest() if secret else secrets.token_bytes(32)
        self._key, self._fernet = key, Fernet(base64.urlsafe_b64encode(key))
        self._form_key = hmac.digest(key, b"form token", "sha256")
        self.identities = self.box("identity", LIFETIME)
        self.browsers = self.box("browser", BEGUN_LIFETIME)
        self.states = self.box("state", BEGUN_LIFETIME)

    def box(self, purpose: str, lifetime: int) -> SealedBox:
        """With a key of its own."""
        return SealedBox(self._key, purpose, lifetime)

    def seal(self, token: str) -> str:
        """Raises TooLong."""
        sealed = self._fernet.encrypt(token.encode()).decode()
        if len(sealed) > LARGEST:
            raise TooLong(f"the token is too long for a cookie: {len(token)} characters")
        return sealed

    def open(self, sealed: str) -> str:
        """The token; empty where it was not sealed here, too long ago, or is none."""
        try:
            return self._fernet.decrypt(sealed.encode(), ttl=LIFETIME).decode()
        except (InvalidToken, UnicodeError):
            return ""

    def sealed_at(self, sealed: str) -> int:
        """When `seal` made it, in seconds since the epoch. Raises ValueError for what it has not made."""
        try:
            return self._fernet.extract_timestamp(sealed.encode())
        except InvalidToken:
            raise ValueError("this was not sealed here") from None

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


def read_cookie(request: HTTPConnection, name: str = LOGIN) -> str:
    """As it is sealed; empty without one, and where there are two: one of them is somebody else's."""
    sent = (value for key, value in request.headers.raw if key.lower() == b"cookie")
    return single_cookie(sent, full_name(name, secure=is_encrypted(request)))


def single_cookie(sent: Iterable[bytes], name: str) -> str:
    """The value of the cookie with this whole name, of `Cookie` headers; empty without one, and where there
    are two."""
    # Starlette's own reading takes names for ours that have odd blanks before them, which browsers let other
    # hosts set, although they begin with `__Host-`.
    wanted = name.encode()
    pairs = (pair.strip(b" \t").partition(b"=") for value in sent for pair in value.split(b";"))
    found = {value.strip(b' \t"') for key, _, value in pairs if key == wanted}
    return found.pop().decode("latin-1") if len(found) == 1 else ""


def set_cookie(
    request: Request, response: Response, sealed: str, name: str = LOGIN, lifetime: float = LIFETIME
) -> None:
    """Kept for so many seconds; an empty one is taken away."""
    secure = is_encrypted(request)
    response.set_cookie(
        full_name(name, secure=secure), sealed, max_age=int(lifetime) if sealed else 0, path="/",
        secure=secure, httponly=True, samesite="lax",
    )  # fmt: skip


def full_name(name: str, *, secure: bool) -> str:
    """As browsers know it."""
    return f"__Host-{name}" if secure else name
