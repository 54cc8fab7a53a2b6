"""A kernel's output, as its engine keeps it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from datetime import datetime

from providers.abilities import LogStream
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import engine_errors
from providers.docker.engine.http import quote_segment

FRAME_HEAD = 8
"""Bytes before each piece of output that is no terminal's: the stream's number, three zeros, its length."""


def read_logs(
    engine: Engine, kernel: str, *, follow: bool, tail: int | None = None, since: datetime | None = None
) -> LogStream:
    """Standard output and error in the order written. Raises KernelNotFound at once."""
    query = {"stdout": True, "stderr": True, "follow": follow, "tail": "all" if tail is None else str(tail)}
    if since is not None:
        query["since"] = f"{since.timestamp():.9f}"
    with engine_errors(engine.node, kernel):
        terminal = bool(engine.inspect(kernel)["Config"]["Tty"])
        pieces = engine.stream("GET", f"/containers/{quote_segment(kernel)}/logs", query=query)
    read = _read_translated(engine, pieces if terminal else demultiplex(pieces))
    return LogStream(read, pieces.close)


def _read_translated(engine: Engine, pieces: Iterator[bytes]) -> Iterator[bytes]:
    with engine_errors(engine.node):
        yield from pieces


def demultiplex(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The payloads of the engine's frames, however the bytes were cut. Raises IncompleteRead when it ends in
    the midst of one."""
    held = bytearray()
    left = 0
    for piece in pieces:
        held += piece
        while held:
            if left == 0:
                if len(held) < FRAME_HEAD:
                    break
                left = int.from_bytes(held[4:FRAME_HEAD], "big")
                del held[:FRAME_HEAD]
                continue
            part = bytes(held[:left])
            del held[: len(part)]
            left -= len(part)
            yield part
    if held or left:
        raise http.client.IncompleteRead(bytes(held), left)
