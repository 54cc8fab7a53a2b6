"""What a terminal wrote last, by the number of bytes since its beginning. Pure.

Two bounds: of what was written lately, `KEPT` is there for a page that has lost it; and nothing that no page
has shown yet is ever dropped: once `AHEAD` of that is there, the program has to wait.
"""

from __future__ import annotations

KEPT = 256 * 1024
"""Bytes."""
AHEAD = 128 * 1024
"""Bytes."""


class OutputWindow:
    """`end`: how much was written so far; `taken`: how much of it a page says it has shown."""

    def __init__(self, kept: int = KEPT, ahead: int = AHEAD) -> None:
        self._kept, self._ahead = kept, ahead
        self._bytes = bytearray()
        self.end = self.taken = 0

    @property
    def start(self) -> int:
        """From where on it is there."""
        return self.end - len(self._bytes)

    @property
    def has_room(self) -> bool:
        return self.end - self.taken < self._ahead

    def append(self, data: bytes) -> None:
        self._bytes += data
        self.end += len(data)
        self._trim()

    def acknowledge(self, offset: int) -> None:
        """A page has shown all before it."""
        self.taken = max(self.taken, min(offset, self.end))
        self._trim()

    def resume_at(self, known: int) -> int:
        """From where on a page is told more that has got all before `known`: from there, where that is still
        there."""
        return known if self.start <= known <= self.end else self.start

    def piece(self, at: int, most: int) -> bytes:
        begin = at - self.start
        return bytes(self._bytes[begin : begin + most])

    def _trim(self) -> None:
        surplus = len(self._bytes) - max(self._kept, self.end - self.taken)
        if surplus > 0:
            del self._bytes[:surplus]
