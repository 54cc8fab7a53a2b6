"""Outputs of several kernels together: whole lines, each with its kernel's name."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping

from bai.render.humanize import clean

WAITING = 1000
"""Most lines that are read before they are printed."""
LONGEST = 1 << 16
"""Bytes of a line that are printed as one."""


def print_interleaved(outputs: Mapping[str, Iterator[bytes]], *, live: bool) -> None:
    """Until all have ended: one after the other, or `live`, as lines come."""
    width = max(map(len, map(clean, outputs)), default=0)
    out = sys.stdout.buffer
    for name, line in interleaved_lines(outputs) if live else sequential_lines(outputs):
        out.write(clean(name).ljust(width).encode() + b" | " + line + b"\n")
        out.flush()


def sequential_lines(outputs: Mapping[str, Iterator[bytes]]) -> Iterator[tuple[str, bytes]]:
    for name, chunks in outputs.items():
        for line in split_lines(chunks):
            yield name, line


def interleaved_lines(outputs: Mapping[str, Iterator[bytes]]) -> Iterator[tuple[str, bytes]]:
    """Name and line, in the order in which they come; one's failure is raised when it comes."""
    box: queue.Queue[tuple[str, bytes | Exception | None]] = queue.Queue(WAITING)

    def pump(name: str, chunks: Iterable[bytes]) -> None:
        try:
            for line in split_lines(chunks):
                box.put((name, line))
        except Exception as error:
            box.put((name, error))
        box.put((name, None))

    for name, chunks in outputs.items():
        threading.Thread(target=pump, args=(name, chunks), daemon=True).start()
    left = len(outputs)
    while left:
        name, item = box.get()
        if isinstance(item, Exception):
            raise item
        if item is None:
            left -= 1
        else:
            yield name, item


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines without their ends; the last one even when it has none. What is longer than LONGEST comes
    in several."""
    held = bytearray()
    for chunk in chunks:
        for number, part in enumerate(chunk.split(b"\n")):
            if number:
                yield bytes(held)
                held.clear()
            held += part
            while len(held) > LONGEST:
                yield bytes(held[:LONGEST])
                del held[:LONGEST]
    if held:
        yield bytes(held)
