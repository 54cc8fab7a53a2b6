"""Iterators of bytes and files, turned into each other."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Generator, Iterator
from typing import IO

CHUNK = 1 << 18


def pipe_writer(write: Callable[[IO[bytes]], None]) -> Generator[bytes]:
    """What `write` writes, in a thread of its own, as it comes; what it raises is raised at the end. When
    nobody reads on, it gets a BrokenPipeError."""
    out, into = os.pipe()
    failed: list[Exception] = []

    def run() -> None:
        try:
            with os.fdopen(into, "wb", CHUNK) as stream:
                write(stream)
        except BrokenPipeError:
            return
        except Exception as error:
            failed.append(error)

    writer = threading.Thread(target=run, daemon=True)
    writer.start()
    try:
        while data := os.read(out, CHUNK):
            yield data
    finally:
        os.close(out)
        writer.join()
    for error in failed:
        raise error


def chunks_as_file(chunks: Iterator[bytes]) -> io.BufferedReader:
    """The chunks as a file, which raises what they raise."""
    return io.BufferedReader(_Chunks(chunks), CHUNK)


class _Chunks(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            data = next(self._chunks, None)
            if data is None:
                return 0
            self._rest = data
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
