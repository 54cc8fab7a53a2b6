"""`Authorization: Bearer ...` (RFC 6750)."""

from __future__ import annotations

from collections.abc import Mapping


def bearer(headers: Mapping[str, str]) -> str:
    """The token of a request; empty when it has none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def is_signed(token: str) -> bool:
    """Whether it is a JWT: a header, claims and a signature."""
    return token.count(".") == 2
