"""What a request may cost, and headers that every answer has."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.values.naturals import LARGEST, parse_natural

LARGEST_BODY = 64 * 1024
"""Bytes of a request's body."""
LARGEST_WEBHOOK = 8 * 2**20
"""Bytes of a forge's message."""
LARGEST_UPLOAD = 10 * 2**30
"""Bytes of a file that a page sends, where nobody says another number."""
_UPLOAD = re.compile(r"/clusters/[^/]+/(?:sessions/[^/]+|volumes(?:/[^/]+)?)/[^/]+/files")
_TOO_LARGE = "the request is too large"
ANSWER_TIMEOUT = 60.0
"""Seconds until an answer must have begun, from the last part of the request."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class TooLarge(HTTPException):
    """More was sent than is read."""

    def __init__(self) -> None:
        super().__init__(413, _TOO_LARGE)


def is_upload(scope: Scope) -> bool:
    """Whether a page sends a file: the only requests that may be large (`bai.web.panel.files.uploads`)."""
    return scope["method"] == "POST" and _UPLOAD.fullmatch(scope["path"]) is not None


class RequestLimits:
    """Middleware: answers 413 and 504 itself."""

    def __init__(
        self, app: ASGIApp, answer_timeout: float = ANSWER_TIMEOUT, largest_upload: int = LARGEST_UPLOAD
    ) -> None:
        self._app, self._answer_timeout, self._largest_upload = app, answer_timeout, largest_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        answer = _BoundedAnswer(send, state)
        most = self._most(scope)
        if _content_length(scope) > most:
            await answer.refuse(413, _TOO_LARGE)
            return
        try:
            async with asyncio.timeout(self._answer_timeout) as limit:
                answer.on_begin = lambda: limit.reschedule(None)

                def on_part() -> None:
                    if not answer.begun:
                        limit.reschedule(asyncio.get_running_loop().time() + self._answer_timeout)

                await self._app(scope, _limited(receive, most, on_part), answer)
        except ClientDisconnect:
            pass  # Nobody is there to be told.
        except TooLarge:
            await answer.refuse(413, _TOO_LARGE)
        except TimeoutError:
            await answer.refuse(504, "this took too long")

    def _most(self, scope: Scope) -> int:
        if scope["path"].startswith("/hooks/"):
            return LARGEST_WEBHOOK
        return self._largest_upload if is_upload(scope) else LARGEST_BODY


class _BoundedAnswer:
    """Passes an answer on, with our headers."""

    def __init__(self, send: Send, state: Mapping[str, Any]) -> None:
        self._send, self._state = send, state
        self.begun = False
        self.on_begin: Callable[[], None] = lambda: None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self.on_begin()
            there = {name.lower() for name, _ in message.get("headers", ())}
            more = [each for each in HEADERS if each[0] not in there]
            if leader := self._state.get("leader"):
                more.append((b"bai-leader", _header_value(leader)))
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await self._send(message)

    async def refuse(self, status: int, detail: str) -> None:
        if self.begun:
            return
        self.on_begin = lambda: None
        body = json.dumps({"detail": detail}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _header_value(name: str) -> bytes:
    """As a header may have it."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in name).encode()


def _content_length(scope: Scope) -> int:
    found = dict(scope["headers"]).get(b"content-length", b"0")
    number = parse_natural(found)
    return (LARGEST if found.isdigit() else 0) if number is None else number


def _limited(receive: Receive, most: int, on_part: Callable[[], None]) -> Receive:
    read = 0

    async def counted() -> Message:
        nonlocal read
        message = await receive()
        if message["type"] == "http.request":
            on_part()
        read += len(message.get("body", b""))
        if read > most:
            raise TooLarge
        return message

    return counted
