"""What Caddy says of a request: the client's headers, and what it sets itself in place of the client's.

Only Caddy reaches the socket where this is read. What it sets comes once; what comes twice is not believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from bai.web.apps.decision import AppRequest, Form
from bai.web.panel.access.same_origin import local_path
from schemas.values.naturals import parse_natural

RESERVED = "/.bai/"
"""Below this path of each app, the gate answers."""
_ONCE = frozenset(
    {
        b"x-forwarded-method", b"x-forwarded-uri", b"x-forwarded-host", b"x-forwarded-for", b"bai-upgrade",
        b"bai-port",
        b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"authorization",
    }
)  # fmt: skip
_METHOD = re.compile(r"[A-Z][A-Z-]{0,30}")
_REFUSED_METHODS = frozenset({"CONNECT", "TRACE", "TRACK"})
GRPC = "application/grpc([+;]|$)"
"""With what the `Content-Type` of gRPC's calls begins, in any case of letters."""
_GRPC = re.compile(GRPC.encode(), re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9.-]{1,253}(:[0-9]{1,5})?")
_DECODINGS = 4
"""Times that a path is decoded at most: what then still has something to decode names no folder of ours."""


class BadRequest(Exception):
    """This is not what Caddy sends, or nothing that an app could be asked."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """`cookies`: each `Cookie` header; `authorization` as it came, empty without; `peer`: the client's
    address; `port`: at which the connection arrived, where that says which app it is for, else 0."""

    request: AppRequest
    cookies: Sequence[bytes]
    authorization: bytes
    peer: str
    port: int = 0


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> RequestHead:
    """Of headers with names in lower case. Raises BadRequest."""
    once: dict[bytes, bytes] = {}
    cookies: list[bytes] = []
    accept = b""
    grpc = False
    for name, value in headers:
        if name == b"cookie":
            cookies.append(value)
        elif name == b"accept":
            accept += b"," + value
        elif name == b"content-type":
            grpc = grpc or _GRPC.match(value) is not None
        elif name in _ONCE:
            if name in once:
                raise BadRequest("a header came twice")
            once[name] = value
    said = {name: value.decode("latin-1").strip() for name, value in once.items()}
    method, host = said.get(b"x-forwarded-method", ""), said.get(b"x-forwarded-host", "").lower()
    uri = said.get(b"x-forwarded-uri", "")
    websocket = said.get(b"bai-upgrade", "").lower() == "websocket"
    port = parse_natural(said.get(b"bai-port") or "0", 65_535)
    known = _METHOD.fullmatch(method) and (websocket or method not in _REFUSED_METHODS)
    if port is None or not known or not _HOST.fullmatch(host) or not uri.startswith("/"):
        raise BadRequest("this is nothing that an app can be asked")
    request = AppRequest(
        method, host, uri, said.get(b"origin", ""), said.get(b"sec-fetch-site", ""),
        said.get(b"sec-fetch-mode", ""), said.get(b"sec-fetch-dest", ""), websocket,
        _form(method, accept, grpc=grpc, websocket=websocket),
    )  # fmt: skip
    return RequestHead(
        request, cookies, once.get(b"authorization", b""), said.get(b"x-forwarded-for", ""), port
    )


def _form(method: str, accept: bytes, *, grpc: bool, websocket: bool) -> Form:
    if grpc and method == "POST":
        return "grpc"
    page = b"text/html" in accept.lower() and method in ("GET", "HEAD") and not websocket
    return "html" if page else "json"


def is_reserved(uri: str) -> bool:
    """Whether whoever reads it, decodes it and resolves its dots, in whatever order and however often, could
    come to a path of the gate's."""
    path = uri.partition("?")[0].partition("#")[0].encode("latin-1", "replace")
    if b".bai" not in path.lower() and b"%" not in path:
        return False
    for _ in range(_DECODINGS):
        if _is_reserved_path(path):
            return True
        decoded = unquote_to_bytes(path)
        if decoded == path:
            return False
        path = decoded
    return _is_reserved_path(path)


def _is_reserved_path(path: bytes) -> bool:
    depth = 0
    for part in re.split(rb"[/\\]", path):
        name = part.partition(b";")[0].strip(b" \t\r\n\0").lower()
        if name == b".bai" and depth == 0:
            return True
        if name == b"..":
            depth = max(0, depth - 1)
        elif name not in (b"", b"."):
            depth += 1
    return False


def onward_path(uri: str) -> str:
    """Where to go on in the app; `/` for what would lead elsewhere, or to the gate."""
    plain = uri.isascii() and " " not in uri and local_path(uri) == uri
    return uri if plain and not is_reserved(uri) else "/"
