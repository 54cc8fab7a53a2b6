"""Requests whose connection becomes a byte stream both ways: attach and exec."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

from providers.docker.engine.engine import Engine
from providers.docker.engine.http import EngineRefusal
from providers.machines.base import Stream

CHUNK = 1 << 16
FRAME_HEAD = 8
"""Bytes before each piece of output without a terminal: the stream's number, three zeros, its length."""
LONGEST = 1 << 16
STDOUT, STDERR = 1, 2


class HijackedConnection:
    """A connection that was taken over: raw bytes in, and out what the engine sends."""

    def __init__(self, stream: Stream, first: bytes) -> None:
        self.stream = stream
        self._first = first

    def recv(self, size: int = CHUNK) -> bytes:
        if self._first:
            data, self._first = self._first[:size], self._first[size:]
            return data
        return self.stream.recv(size)

    def send(self, data: bytes) -> None:
        self.stream.sendall(data)

    def end(self) -> None:
        """No more input; output still comes."""
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_WR)

    def leave(self) -> None:
        """Hang up: whoever reads sees the end."""
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.stream.close()

    def chunks(self) -> Iterator[bytes]:
        with contextlib.suppress(ConnectionError):
            while data := self.recv():
                yield data

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Pieces of output that is no terminal's, each with `STDOUT` or `STDERR`."""
        held = b""
        for data in self.chunks():
            held += data
            while len(held) >= FRAME_HEAD:
                length = int.from_bytes(held[4:FRAME_HEAD], "big")
                if len(held) < FRAME_HEAD + length:
                    break
                yield held[0], held[FRAME_HEAD : FRAME_HEAD + length]
                held = held[FRAME_HEAD + length :]


def hijack(engine: Engine, path: str, query: Mapping[str, str], body: object = None) -> HijackedConnection:
    """POST, and take the connection over. Raises EngineRefusal, OSError."""
    content = b"" if body is None else json.dumps(body).encode()
    target = f"/v{engine.version}{path}" + (f"?{urlencode(query)}" if query else "")
    head = [
        f"POST {target} HTTP/1.1",
        "Host: docker",
        "Connection: Upgrade",
        "Upgrade: tcp",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    stream = engine.dial()
    try:
        stream.settimeout(120)
        stream.sendall("\r\n".join([*head, "", ""]).encode() + content)
        answer = _ResponseHead(stream)
        if answer.status not in (101, 200):
            raise EngineRefusal(answer.status, answer.why())
        stream.settimeout(None)
    except BaseException:
        stream.close()
        raise
    return HijackedConnection(stream, answer.rest)


class _ResponseHead:
    """The head of the engine's answer, and what already came after it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        data = b""
        while b"\r\n\r\n" not in data:
            more = stream.recv(CHUNK)
            if not more or len(data) > LONGEST:
                raise ConnectionError("the engine hung up")
            data += more
        head, _, self.rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode(errors="replace").split("\r\n")
        self.status = int([*first.split(), "", "0"][1])
        pairs = (line.partition(":") for line in lines)
        self._headers = {name.strip().lower(): value.strip() for name, _, value in pairs}

    def why(self) -> str:
        """The message of a refusal."""
        length = int(self._headers.get("content-length") or 0)
        while len(self.rest) < min(length, LONGEST):
            more = self._stream.recv(CHUNK)
            if not more:
                break
            self.rest += more
        try:
            return str(json.loads(self.rest)["message"])
        except (ValueError, KeyError, TypeError):
            return self.rest.decode(errors="replace").strip() or f"HTTP status {self.status}"
