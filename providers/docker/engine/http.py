"""HTTP to an engine over any connected stream. Importing the `docker` SDK takes half a second, twice what
`docker run` takes: too much for a command (see the decision records).

Connections are kept and used again. A request that fails on a connection that was kept, before any answer
came, is sent once more on a fresh one: all that is sent here may be sent twice.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import IO, Any, cast
from urllib.parse import quote, urlencode

from providers.machines.base import LARGEST, Stream

KEPT_CONNECTIONS = 8
"""Most idle connections to one engine."""
CHUNK = 65_536
PATIENCE = 30.0
"""Seconds of silence after which a request has failed, where nothing else is said."""
LONGEST_LINE = 2**20
"""Bytes of a line of an answer that goes on."""
LONGEST_REASON = 4096
"""Letters of what an engine says went wrong."""
LONGEST = 2
"""An answer that comes byte by byte may take so many times what is waited for in silence."""


class EngineRefusal(Exception):
    """The engine's answer was an error: its HTTP status and its words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class StreamReader(io.RawIOBase):
    """A stream to be read as a file. `done` is called in the end."""

    def __init__(self, stream: Stream, done: Callable[[], None]) -> None:
        self.stream = stream
        self._done = done

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._done()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class HttpSocket:
    """A stream with what HTTP clients want of a socket: what still reads from it keeps it open."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._users = 1
        self._closed = False
        self._timeout: float | None = None
        self._until: float | None = None

    def makefile(self, *_: Any, **__: Any) -> IO[bytes]:
        self._users += 1
        return cast(
            "IO[bytes]", io.BufferedReader(StreamReader(cast(Stream, self), self._reader_closed), CHUNK)
        )

    def limit(self, silence: float | None, whole: float | None) -> None:
        """Seconds of silence, and in all from now on, after which `recv` raises TimeoutError."""
        self._timeout = silence
        self._until = None if whole is None else time.monotonic() + whole
        self.stream.settimeout(silence)

    def recv(self, size: int) -> bytes:
        if self._until is not None:
            left = self._until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if self._timeout is None or left < self._timeout:
                self.stream.settimeout(left)
        return self.stream.recv(size)

    def rest(self, resting: bool) -> None:
        """Whether it is kept for later: what it travels on may be closed meanwhile."""
        if (tell := getattr(self.stream, "rest", None)) is not None:
            tell(resting)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._reader_closed()

    def _reader_closed(self) -> None:
        self._users -= 1
        if not self._users:
            self.stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class StreamedAnswer:
    """An answer that goes on: its bytes as they come. `close` ends it, from another thread too."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, stream: Stream
    ) -> None:
        self._connection = connection
        self._response = response
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            piece = self._response.read1(CHUNK)
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            self.close()
            raise
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class EngineHttp:
    """Requests to one engine. `dial` connects; `close` drops what is kept. May be used by several threads."""

    def __init__(self, dial: Callable[[], Stream], *, host: str = "docker") -> None:
        self._dial = dial
        self._host = host
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        timeout: float | None = PATIENCE,
    ) -> Any:
        """The answer's JSON, or its text. Raises EngineRefusal, OSError."""
        connection, response, _ = self._send(method, path, query, body, timeout)
        return _parse_json(response, self._read(connection, response))

    def lines(self, path: str, *, query: Mapping[str, object]) -> list[bytes]:
        """The lines of an answer that comes to an end. Raises EngineRefusal, OSError."""
        connection, response, _ = self._send("GET", path, query, None, PATIENCE)
        return self._read(connection, response).splitlines()

    def _read(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> bytes:
        try:
            content = _read_whole(response)
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        self._keep_connection(connection, response)
        return content

    def headers(self, path: str, *, query: Mapping[str, object]) -> Mapping[str, str]:
        """The head of an answer, without its body. Raises EngineRefusal, OSError."""
        connection, response, _ = self._send("HEAD", path, query, None, PATIENCE)
        response.read()
        self._keep_connection(connection, response)
        return dict(response.headers.items())

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> StreamedAnswer:
        """The answer's bytes as they come; the connection ends with them. `timeout`: seconds of silence after
        which it fails, for ever if None."""
        connection, response, wire = self._send(method, path, query, body, timeout, headers or {})
        wire.limit(timeout, None)
        return StreamedAnswer(connection, response, cast(Stream, wire))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: object,
        timeout: float | None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, HttpSocket]:
        target = path + ("?" + _query_text(query) if query else "")
        raw = isinstance(body, bytes)
        content = body if raw else None if body is None else json.dumps(body).encode()
        kind = "application/x-tar" if raw else "application/json"
        headers = {**({"Content-Type": kind} if content is not None else {}), **more}
        while True:
            connection, fresh = self._connection()
            try:
                wire = cast(HttpSocket, connection.sock)
                wire.limit(timeout, None if timeout is None else LONGEST * timeout)
                connection.request(method, target, body=cast("bytes | None", content), headers=headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if fresh or isinstance(error, TimeoutError):
                    raise
                continue
            if response.status >= 400:
                raise self._refusal(connection, response)
            return connection, response, wire

    def _refusal(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> EngineRefusal:
        content = self._read(connection, response)
        try:
            said = str(json.loads(content)["message"])
        except (ValueError, KeyError, TypeError, RecursionError):
            said = content.decode(errors="replace").strip() or response.reason
        return EngineRefusal(response.status, said[:LONGEST_REASON])

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            cast(HttpSocket, kept.sock).rest(False)
            return kept, False
        connection = http.client.HTTPConnection(self._host)
        connection.sock = cast(Any, HttpSocket(self._dial()))
        return connection, True

    def _keep_connection(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        with self._lock:
            if not response.will_close and connection.sock is not None and len(self._idle) < KEPT_CONNECTIONS:
                cast(HttpSocket, connection.sock).rest(True)
                self._idle.append(connection)
                return
        connection.close()


def _read_whole(response: http.client.HTTPResponse) -> bytes:
    """Raises OSError where it is larger than any engine's."""
    content = response.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(f"its answer is larger than {LARGEST >> 20} MiB")
    if response.length:
        raise http.client.IncompleteRead(content, response.length)
    return content


def split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of an answer that goes on, however the bytes were cut; empty ones are left out. Raises
    OSError where one is longer than any engine's."""
    rest = bytearray()
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            rest += line
            if rest.strip():
                yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > LONGEST_LINE:
            raise OSError(f"a line of its answer is longer than {LONGEST_LINE >> 20} MiB")
    if rest.strip():
        yield bytes(rest)


def _query_text(query: Mapping[str, Any]) -> str:
    """Names of files may be in no encoding."""
    return urlencode({key: _query_value(each) for key, each in query.items()}, errors="surrogateescape")


def _query_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def _parse_json(response: http.client.HTTPResponse, content: bytes) -> Any:
    """Raises ValueError where it is no JSON, or holds half a character, which nothing can write."""
    if response.headers.get_content_type() == "application/json" and content.strip():
        value = json.loads(content)
        if b"\\ud" in content.lower():
            json.dumps(value, ensure_ascii=False).encode()
        return value
    return content.decode(errors="replace")


def quote_segment(text: str) -> str:
    """Text as one part of a path."""
    return quote(text, safe="", errors="surrogateescape")
