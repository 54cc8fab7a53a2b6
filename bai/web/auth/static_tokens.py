"""Static tokens: `Authorization: Bearer ...`, of which only hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping

from bai.web.auth.bearer import bearer, is_signed
from bai.web.auth.roles import Principal

PREFIX = "bai_"
"""By which scanners of secrets know one."""


def new_token() -> tuple[str, str]:
    """A token of 256 random bits, and its hash."""
    token = PREFIX + secrets.token_urlsafe(32)
    return token, hash_of(token)


def hash_of(token: str) -> str:
    """SHA-256 in hex. A slow hash would protect guessable words; these are random."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenAuthenticator:
    """Hashes, and who has the token."""

    def __init__(self, known: Iterable[tuple[str, Principal]]) -> None:
        self._known = tuple(known)

    def authenticate(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        token = bearer(headers)
        if not token or is_signed(token):
            return None
        digest = hash_of(token)
        # Every hash is looked at, whichever it is: how long it takes says nothing.
        found = [principal for known, principal in self._known if hmac.compare_digest(known, digest)]
        if not found:
            raise PermissionError("no such token")
        return found[0]
