"""Addresses to which a token may be sent."""

from __future__ import annotations

from urllib.parse import urlsplit

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def check_address(url: str) -> str:
    """`https://bai.example`, without a slash at its end; plain HTTP only for this machine, as whoever is on
    the way could read the token. Raises ValueError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is no address: {error}") from None
    if not host or parts.scheme not in ("https", "http"):
        raise ValueError(f"{url!r} is no address of a server: write https://bai.example")
    if parts.scheme == "http" and host not in _THIS_MACHINE:
        raise ValueError(f"{url!r} is without TLS, where everybody on the way could read the token")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"{url!r} has more than host, port and path")
    return url.rstrip("/")
