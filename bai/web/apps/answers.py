"""What the gate answers itself: pages for who wants pages, JSON for all others. They load and run nothing,
are shown in no frame and kept by nobody.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from bai.render.humanize import clean
from bai.web.apps.decision import Form

Headers = tuple[tuple[bytes, bytes], ...]
_STYLE = (
    ":root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}"
    "body{margin:0;display:grid;min-height:100vh;place-items:center}"
    "main{max-width:36rem;padding:2rem;overflow-wrap:anywhere}"
    "h1{font-size:1.4rem;margin:0 0 1rem}"
    ".hint{opacity:.75}"
    ".button{display:inline-block;padding:.5rem 1rem;border:1px solid;border-radius:.4rem;"
    "background:none;color:inherit;font:inherit;text-decoration:none;cursor:pointer}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_COMMON: Headers = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", _POLICY.encode()),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Of HTTP."""

    status: int
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Notice:
    """What is said, to people or programs. `again`: seconds after which a page comes again by itself;
    `onward`: label and address of a link; `leave`: whether logging out of the app is offered."""

    title: str
    lines: Sequence[str] = ()
    again: int = 0
    onward: tuple[str, str] | None = None
    leave: bool = False


_GRPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 503: 14}
"""Status of HTTP to code of gRPC: INVALID_ARGUMENT, UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND,
UNAVAILABLE; else UNKNOWN."""
_UNKNOWN = 2
_UNQUOTED = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"
"""Of what can be printed, all but `%` stands in a message of gRPC as it is."""
_SILENT: Headers = ((b"referrer-policy", b"no-referrer"),)
# A form's `Origin` is "null" where a page says that no one is to hear where it comes from.
_FORM: Headers = ((b"referrer-policy", b"same-origin"),)


def notice(status: int, said: Notice, headers: Headers = (), *, form: Form) -> Answer:
    detail = clean(": ".join([said.title, " ".join(said.lines)]) if said.lines else said.title)
    if form == "html":
        kind, body = b"text/html; charset=utf-8", _page(said)
    elif form == "grpc":
        kind, body = b"application/grpc", b""
        code, message = _GRPC_CODES.get(status, _UNKNOWN), quote(detail, safe=_UNQUOTED)
        headers = (*headers, (b"grpc-status", str(code).encode()), (b"grpc-message", message.encode()))
    else:
        kind, body = b"application/json", json.dumps({"detail": detail}).encode()
    again: Headers = ((b"retry-after", str(said.again).encode()),) if said.again else ()
    referrer = _FORM if said.leave else _SILENT
    return Answer(status, ((b"content-type", kind), *again, *_COMMON, *referrer, *headers), body)


def redirect(where: str, headers: Headers = ()) -> Answer:
    return Answer(302, ((b"location", where.encode("ascii")), *_COMMON, *_SILENT, *headers))


def _page(said: Notice) -> bytes:
    text = _template().render(
        title=said.title, lines=said.lines, again=said.again, onward=said.onward, leave=said.leave,
        style=Markup(_STYLE),
    )  # fmt: skip
    return text.encode()


@functools.cache
def _template() -> Template:
    made = Environment(
        loader=PackageLoader("bai.web.apps"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters["clean"] = clean
    return made.get_template("gate.html")
