"""Where browsers reach this server: an identity provider sends them back there."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

from bai.web.panel.access.cookies import is_encrypted

_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


def check_public_url(url: str) -> str:
    """Without a slash at its end. Raises ValueError for what is no address of a server, and for one without
    TLS that is not of this machine."""
    parts = urlsplit(url)
    whole = f"{parts.scheme}://{parts.netloc}"
    if not _HOST.fullmatch(parts.netloc) or url not in (whole, f"{whole}/"):
        raise ValueError(f"{url!r} is more or less than https:// and a name, with a port where it has one")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _HERE):
        raise ValueError(f"{url!r} is without TLS, and not of this machine")
    return whole


def public_address(request: Request, public_url: str) -> str:
    """`public_url`, or what the browser has asked: no proxy's word counts but for TLS. Who writes a Host of
    their own leads nobody but themselves elsewhere: no answer with it is kept. Answers 400 where it would
    lead anybody there without TLS."""
    host = request.headers.get("host", "")
    scheme = "https" if is_encrypted(request) else "http"
    try:
        return public_url or check_public_url(f"{scheme}://{host}")
    except ValueError:
        raise HTTPException(
            400, "a login at an identity provider goes by https, or on the machine of `bai serve` itself"
        ) from None
