"""Answers that are the same until something happens: made once, kept as bytes, with an ETag (RFC 9110)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastapi import Request, Response
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

LARGEST_CACHE = 32 * 2**20
"""Bytes of bodies that are kept for one cluster; what was not asked for the longest goes first."""
ENTRY_OVERHEAD = 1024
"""Bytes that count for what was asked, beside the body: many small answers are bounded, too."""
T = TypeVar("T")
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
        if matches_tag(request.headers.get("if-none-match", ""), self.tag):
            return Response(status_code=304, headers=headers)
        return Response(self.data, media_type="application/json", headers=headers)


def matches_tag(tags: str, tag: str) -> bool:
    """Whether `If-None-Match` names this very answer."""
    named = (each.strip().removeprefix("W/") for each in tags.split(","))
    return tags.strip() == "*" or tag in named


class VersionedCache(Generic[T]):
    """Values by what was asked. Those of a version are dropped when one of a later version is made.
    Thread-safe; a value is made by one thread, for which the others wait. `size` in bytes."""

    def __init__(self, size: Callable[[T], int], most: int = LARGEST_CACHE) -> None:
        self._size_of, self._most = size, most
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._version: Hashable = None
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._size = 0

    def get(self, key: Hashable, version: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made now unless it is there."""
        if (found := self.peek(key, version)) is not None:
            return found
        with self._making:
            if (found := self.peek(key, version)) is not None:
                return found
            made = make()
            self._put(key, version, made)
            return made

    def peek(self, key: Hashable, version: Hashable) -> T | None:
        """What is there of this version."""
        with self._lock:
            if version != self._version or key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def _put(self, key: Hashable, version: Hashable, made: T) -> None:
        with self._lock:
            if version != self._version:
                self._values.clear()
                self._version, self._size = version, 0
            if (before := self._values.pop(key, None)) is not None:
                self._size -= self._size_of(before) + ENTRY_OVERHEAD
            self._values[key] = made
            self._size += self._size_of(made) + ENTRY_OVERHEAD
            while self._size > self._most:
                _, gone = self._values.popitem(last=False)
                self._size -= self._size_of(gone) + ENTRY_OVERHEAD


class EtagCache:
    """Bodies by what was asked, as `VersionedCache` keeps them."""

    def __init__(self, most: int = LARGEST_CACHE) -> None:
        self._bodies: VersionedCache[CachedBody] = VersionedCache(lambda body: len(body.data), most)

    def get(self, key: Hashable, version: Hashable, make: Callable[[], object]) -> CachedBody:
        """What `make` gives, made now unless it is there."""
        return self._bodies.get(key, version, lambda: CachedBody.of(make()))

    def peek(self, key: Hashable, version: Hashable) -> CachedBody | None:
        """What is there of this version."""
        return self._bodies.peek(key, version)

    async def respond(
        self, request: Request, key: Hashable, version: Hashable, make: Callable[[], object]
    ) -> Response:
        """The same as an answer; `make` runs in a thread."""
        found = self.peek(key, version)
        if found is None:
            found = await run_in_threadpool(self.get, key, version, make)
        return found.respond(request)
