"""The status of an HTTP answer, of a server that may do its worst: no more than its head is read, and no
longer than until a deadline."""

from __future__ import annotations

import re
import ssl
import time
from functools import cache
from urllib.parse import quote

from providers.machines.base import Stream

MOST_HEAD = 16 << 10
"""Bytes of an answer that are read at most; with TLS, of its handshake besides:"""
MOST_HANDSHAKE = 256 << 10
_CHUNK = 4096
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})[ \r\n]")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_INFORMATIONAL = frozenset({100, 102, 103})
_LINE = len(b"HTTP/1.1 200 ")


class NoHttp(Exception):
    """What came is no answer; the words say what it is."""


def http_status(stream: Stream, path: str, *, tls: bool, deadline: float) -> int:
    """The status that a GET is answered with. `deadline`: by `time.monotonic`; a certificate is not looked
    at. Raises NoHttp, TimeoutError, OSError, EOFError and what the stream raises."""
    timed = _Timed(stream, deadline, MOST_HEAD + (MOST_HANDSHAKE if tls else 0))
    connection = _Tls(timed) if tls else timed
    connection.sendall(_request(path))
    head = b""
    while True:
        found = _STATUS.match(head)
        if found is None and len(head) >= _LINE:
            raise NoHttp("the answer is not HTTP")
        if found is not None:
            status = int(found[1])
            if status not in _INFORMATIONAL:
                return status
            if (end := _END_OF_HEAD.search(head)) is not None:
                head = head[end.end() :]
                continue
        data = connection.recv(_CHUNK)
        if not data:
            raise NoHttp("the connection was closed without an answer")
        head += data


def _request(path: str) -> bytes:
    # What is not printable ASCII would end the line, or not fit into it.
    target = quote(path, safe="/%?#[]@!$&'()*+,;=:~-._").partition("#")[0]
    lines = (f"GET {target} HTTP/1.1", "Host: localhost", "User-Agent: bai-probe", "Accept: */*")
    return "\r\n".join((*lines, "Connection: close", "", "")).encode()


class _Timed:
    """A stream whose every call ends at the deadline, however little comes at a time, and that gives no more
    than `most` bytes."""

    def __init__(self, stream: Stream, deadline: float, most: int) -> None:
        self._stream = stream
        self._deadline = deadline
        self._left = most

    def recv(self, size: int, /) -> bytes:
        if self._left <= 0:
            raise NoHttp(f"no status within {MOST_HEAD >> 10} KiB")
        self._limit()
        data = self._stream.recv(size)
        self._left -= len(data)
        return data

    def sendall(self, data: bytes, /) -> None:
        self._limit()
        self._stream.sendall(data)

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._stream.settimeout(left)


class _Tls:
    """TLS on a stream that need not be a socket."""

    def __init__(self, stream: _Timed) -> None:
        self._stream = stream
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _context().wrap_bio(self._coming, self._going, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                if not self._fill():
                    raise NoHttp("the connection was closed in the handshake") from None
            else:
                self._flush()
                return

    def recv(self, size: int, /) -> bytes:
        """A record that carries nothing is no end: the next one is waited for."""
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                if not self._fill():
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    def sendall(self, data: bytes, /) -> None:
        self._tls.write(data)
        self._flush()

    def _flush(self) -> None:
        if data := self._going.read():
            self._stream.sendall(data)

    def _fill(self) -> bool:
        data = self._stream.recv(_CHUNK)
        self._coming.write(data)
        return bool(data)


@cache
def _context() -> ssl.SSLContext:
    """As everywhere where a cluster asks its own replicas: whose certificate it is does not matter."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made
