"""What may change something comes from a page of ours: a browser says where a request comes from (Fetch
Metadata; the Origin header where it does not send that).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from fastapi.requests import HTTPConnection


def require_same_origin(request: Request) -> None:
    """Answers 403 to what another site has a browser send, and to who does not say."""
    site = request.headers.get("sec-fetch-site")
    origin = urlsplit(request.headers.get("origin", ""))
    ours = site == "same-origin" if site is not None else origin.netloc == request.headers.get("host")
    if not ours or not (site or origin.netloc):
        raise HTTPException(403, "this was not sent by a page of this server")


def require_own_origin(connection: HTTPConnection) -> None:
    """For what every browser says the origin of, as of WebSockets. Answers 403 to all others."""
    origin = urlsplit(connection.headers.get("origin", ""))
    if not origin.netloc or origin.netloc != connection.headers.get("host"):
        raise HTTPException(403, "this was not sent by a page of this server")


def local_path(text: str) -> str:
    """A path of this server to go on to; `/` for what would lead elsewhere."""
    plain = text.isprintable() and "\\" not in text
    return text if plain and text.startswith("/") and not text.startswith("//") else "/"
