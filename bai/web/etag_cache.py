"""Answers that are the same until something happens: made once, kept as bytes, with an ETag (RFC 9110)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from fastapi import Request, Response
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

LARGEST_CACHE = 32 * 2**20
"""Bytes of bodies that are kept for one cluster; what was not asked for the longest goes first."""
ENTRY_OVERHEAD = 1024
"""Bytes that count for what was asked, beside the body: many small answers are bounded, too."""
_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}


@dataclass(frozen=True, slots=True)
class CachedBody:
    """JSON as it is sent, and the tag by which the same bytes are known again."""

    data: bytes
    tag: str

    @classmethod
    def of(cls, value: object) -> CachedBody:
        """Of models, and of what JSON can say."""
        data = to_json(value, inf_nan_mode="null")
        return cls(data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')

    def respond(self, request: Request) -> Response:
        """200, or 304 to whoever has these very bytes."""
        headers = {**_HEADERS, "ETag": self.tag}
        if _matches(request.headers.get("if-none-match", ""), self.tag):
            return Response(status_code=304, headers=headers)
        return Response(self.data, media_type="application/json", headers=headers)


def _matches(tags: str, tag: str) -> bool:
    named = (each.strip().removeprefix("W/") for each in tags.split(","))
    return tags.strip() == "*" or tag in named


class EtagCache:
    """Bodies by what was asked. Those of a version are dropped when one of a later version is made.
    Thread-safe; a body is made by one thread, for which the others wait."""

    def __init__(self, most: int = LARGEST_CACHE) -> None:
        self._most = most
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._version: Hashable = None
        self._bodies: OrderedDict[Hashable, CachedBody] = OrderedDict()
        self._size = 0

    def get(self, key: Hashable, version: Hashable, make: Callable[[], object]) -> CachedBody:
        """What `make` gives, made now unless it is there."""
        if (found := self.peek(key, version)) is not None:
            return found
        with self._making:
            if (found := self.peek(key, version)) is not None:
                return found
            made = CachedBody.of(make())
            self._put(key, version, made)
            return made

    async def respond(
        self, request: Request, key: Hashable, version: Hashable, make: Callable[[], object]
    ) -> Response:
        """The same as an answer; `make` runs in a thread."""
        found = self.peek(key, version)
        if found is None:
            found = await run_in_threadpool(self.get, key, version, make)
        return found.respond(request)

    def peek(self, key: Hashable, version: Hashable) -> CachedBody | None:
        """What is there of this version."""
        with self._lock:
            if version != self._version or key not in self._bodies:
                return None
            self._bodies.move_to_end(key)
            return self._bodies[key]

    def _put(self, key: Hashable, version: Hashable, body: CachedBody) -> None:
        with self._lock:
            if version != self._version:
                self._bodies.clear()
                self._version, self._size = version, 0
            if (before := self._bodies.pop(key, None)) is not None:
                self._size -= len(before.data) + ENTRY_OVERHEAD
            self._bodies[key] = body
            self._size += len(body.data) + ENTRY_OVERHEAD
            while self._size > self._most:
                _, gone = self._bodies.popitem(last=False)
                self._size -= len(gone.data) + ENTRY_OVERHEAD
