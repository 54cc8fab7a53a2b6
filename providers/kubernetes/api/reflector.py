"""A view of one kind of object that stays up to date: a list, then a watch that goes on from it.

The first look lists and is done, which is all that a command needs. Whoever looks again is a loop: from the
second look on, a thread watches, and a look costs nothing while nothing changes. When the watch cannot go on
(the connection, or history that the server no longer has), the next look lists anew. So it is where the
server has gone back to an older state, as after a restore of etcd from a backup: versions are a new history
then, and a watch from a version that it does not have yet would be silent until it has it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import GONE, ApiRefusal
from schemas.problems.errors.provider import ProviderError
from schemas.values.naturals import parse_natural

T = TypeVar("T")
Key = tuple[str, str]
"""Namespace (empty where it has none) and name."""
Listener = Callable[[T | None, T | None], None]
SILENCE = 150.0
"""Seconds without a word after which a watch counts as broken: servers send a bookmark about each minute."""
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)
"""What reading an object raises that is none."""
LASTS = 300
"""Seconds after which the server ends a watch, and the next one goes on from there."""


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """What there is. `revision` grows with each change, so that equal ones need not be compared."""

    objects: Mapping[Key, T]
    revision: int


class Reflector(Generic[T]):
    """`parse` makes of an object what is kept of it: called once for each change, in the thread that hears of
    it; None leaves the object out. What it raises is that object's alone: it is left out, and in `broken`."""

    def __init__(self, client: ApiClient, path: str, parse: Callable[[Object], T | None]) -> None:
        self._client = client
        self._path = path
        self._parse = parse
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._listing = threading.Lock()
        self._objects: dict[Key, T] = {}
        self._versions: dict[Key, int] = {}
        self._gone: set[str] = set()
        self._recorded: set[Key] = set()
        """Told by answers to us since the last list was asked for: that may be older."""
        self._forgotten: set[str] = set()
        """The same for what is gone, by UID."""
        self._revision = 0
        self._told = 0
        """The last change that the server has told of: what is older is known, or gone."""
        self._looks = 0
        self._listed_at = -1.0
        self._watching = False
        self._response: BaseHTTPResponse | None = None
        self._closed = False
        self._listeners: list[Listener[T]] = []
        self._view: View[T] = View({}, -1)
        self.broken: dict[Key, str] = {}
        """Objects that could not be read, and why."""

    def look(self) -> View[T]:
        """Raises ApiRefusal, OSError where it had to be listed and that failed."""
        with self._listing:
            with self._lock:
                fresh = self._watching
            if not fresh:
                self._list()
            with self._lock:
                if self._view.revision != self._revision:
                    self._view = View(dict(self._objects), self._revision)
                return self._view

    def follow(self) -> None:
        """From now on a thread watches, whether anybody looks or not. Raises ApiRefusal, OSError."""
        with self._listing:
            with self._lock:
                watching = self._watching
            if not watching:
                self._list(follow=True)

    def catch_up(self, version: int, seconds: float = 10.0) -> None:
        """Until all is known that happened before this version, which an answer to us has told. Raises
        ApiRefusal, OSError."""
        deadline = time.monotonic() + seconds
        with self._news:
            while self._watching and self._told < version:
                if not self._news.wait(deadline - time.monotonic()):
                    break
            if self._told >= version:
                return
        with self._listing:
            self._list(follow=True)  # What is listed now is newer.

    def look_anew(self) -> None:
        """Until all is known that has happened by now, whatever the watch has told: lists, once for all who
        ask meanwhile. Raises ApiRefusal, OSError."""
        asked = time.monotonic()
        with self._listing:
            if self._listed_at < asked:
                self._list(follow=True)

    def record(self, found: Object) -> None:
        """What an answer to us said of an object, which the watch may not have told yet."""
        with self._lock:
            if _version_of(found) > self._told:
                self._recorded.add(key_of(found))
                self._put(found)

    def forget(self, key: Key, uid: str) -> None:
        """An answer to us said that this object is gone, of which the watch may tell older things yet."""
        with self._lock:
            self._gone.add(uid)
            self._forgotten.add(uid)
            self._drop(key)

    def listen(self, call: Listener[T]) -> Callable[[], None]:
        """`call` is told of each change from now on, with what was there before and what is there now (None:
        nothing), in whatever thread learns of it; quick, and never raises. Gives what ends that."""
        with self._lock:
            self._listeners.append(call)

        def end() -> None:
            with self._lock:
                self._listeners.remove(call)

        return end

    def close(self) -> None:
        self._closed = True
        with self._lock:
            response = self._response
        if response is not None:
            with contextlib.suppress(ValueError, OSError, HTTPError):
                response.shutdown()

    def _list(self, *, follow: bool = False) -> None:
        began = time.monotonic()
        with self._lock:
            self._recorded.clear()
            self._forgotten.clear()
        found = self._listed()
        with self._lock:
            self._listed_at = began
            self._told = parse_natural(found.version) or 0
            newer = {key for key in self._recorded if self._versions.get(key, 0) > self._told}
            there = {key_of(each) for each in found.items} | newer
            for key in [key for key in self._versions if key not in there]:
                self._drop(key)
            self._versions = {key: self._versions[key] for key in newer}
            self._gone &= self._forgotten
            for each in found.items:
                self._put(each)
            self._looks += 1
            self._news.notify_all()
            if (self._looks < 2 and not follow) or self._closed or self._watching:
                return
            self._watching = True
        name = f"bai-watch-{self._path.rpartition('/')[2]}"
        threading.Thread(target=self._watch, args=(found.version,), name=name, daemon=True).start()

    def _listed(self) -> Any:
        try:
            return self._client.list(self._path)
        except ApiRefusal as refusal:
            if refusal.status != GONE:
                raise
            return self._client.list(self._path)  # A page had become too old.

    def _watch(self, version: str) -> None:
        """Until it cannot go on; then the next look lists."""
        try:
            version = self._follow(version)
            while not self._closed and version and not self._has_gone_back(version):
                version = self._follow(version)
        except (
            ApiRefusal,
            ProviderError,
            OSError,
            HTTPError,
            ValueError,
            AttributeError,
            KeyError,
            TypeError,
        ):
            pass
        finally:
            with self._lock:
                self._watching = False
                self._response = None
                self._news.notify_all()

    def _has_gone_back(self, version: str) -> bool:
        """Whether the server has an older state than one that it has told of."""
        page = self._client.get(self._path, {"limit": 1})
        return int(page["metadata"]["resourceVersion"]) < int(version)

    def _follow(self, version: str) -> str:
        """One watch; the version to go on from, empty where that is no longer known."""
        query = {
            "watch": "1", "allowWatchBookmarks": "1", "resourceVersion": version,
            "timeoutSeconds": LASTS,
        }  # fmt: skip
        response = self._client.stream(self._path, query, silence=SILENCE)
        with self._lock:
            self._response = response
        heard = ""
        try:
            for line in () if self._closed else _lines(response):
                event = json.loads(line)
                found = event.get("object") or {}
                if event.get("type") == "ERROR":
                    return ""
                if _version_of(found) < int(heard or version):
                    return ""  # It has gone back.
                heard = str(found["metadata"]["resourceVersion"])
                self._hear(event["type"], found)
            return heard  # Who ends watches without a word would be asked again and again.
        finally:
            response.close()

    def _hear(self, what: str, found: Object) -> None:
        with self._lock:
            if _version_of(found) <= self._told:
                return  # A list was ahead of the watch.
            self._told = _version_of(found)
            if what == "DELETED":
                self._gone.discard(_uid_of(found))
                if _version_of(found) >= self._versions.get(key_of(found), 0):
                    self._drop(key_of(found))
            elif what != "BOOKMARK":
                self._put(found)
            self._news.notify_all()

    def _put(self, found: Object) -> None:
        key, version = key_of(found), _version_of(found)
        if version < self._versions.get(key, 0) or _uid_of(found) in self._gone:
            return  # The watch tells what an answer to us was ahead of.
        self._versions[key] = version
        try:
            parsed = self._parse(found)
        except _UNREADABLE as error:
            self._say_broken(key, f"{type(error).__name__}: {error}")
            parsed = None
        else:
            self._say_broken(key, "")
        self._set(key, parsed)

    def _drop(self, key: Key) -> None:
        self._set(key, None)
        self._versions.pop(key, None)
        self._say_broken(key, "")

    def _say_broken(self, key: Key, why: str) -> None:
        """Empty: it can be read, or is gone."""
        if self.broken.get(key, "") == why:
            return
        self.broken.pop(key, None)
        if why:
            self.broken[key] = why
        self._revision += 1

    def _set(self, key: Key, now: T | None) -> None:
        before = self._objects.get(key)
        if before == now:
            return
        if now is None:
            del self._objects[key]
        else:
            self._objects[key] = now
        self._revision += 1
        for tell in self._listeners:
            tell(before, now)


def key_of(found: Mapping[str, Any]) -> Key:
    metadata = found["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])


def _version_of(found: Mapping[str, Any]) -> int:
    return parse_natural(str(found["metadata"].get("resourceVersion") or "")) or 0


def _uid_of(found: Mapping[str, Any]) -> str:
    return str(found["metadata"].get("uid") or "")


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    """Lines as they come, without waiting for more than one read."""
    rest = b""
    for piece in response.stream(2**16):
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line for line in whole if line)
