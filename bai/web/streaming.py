"""Output that comes when it comes, from an iterator that blocks, to a connection that must not.

Each follower has a thread of its own, so that none of those that answer requests waits for a quiet session.
There are only so many, for one person and in all.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator

from providers.abilities import LogStream

MOST_FOLLOWERS = 64
"""Followers in all."""
MOST_PER_USER = 8
"""Followers of one person."""
READ_AHEAD = 16
"""Pieces that are read before the connection has taken them."""


def call_in(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> None:
    """Have it called in the thread of `loop`; nobody is left to hear it where that has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)


class TooManyFollowers(Exception):
    """Nobody more can follow just now."""


class Followers:
    """Threads that read for connections. One whose connection is gone ends at once where `output` is a
    `LogStream`, else with the next piece."""

    def __init__(self, most: int = MOST_FOLLOWERS, most_each: int = MOST_PER_USER) -> None:
        self._most, self._most_each = most, most_each
        # Garbage may be collected, and a place given back, while this very thread has it.
        self._lock = threading.RLock()
        self._now: Counter[str] = Counter()

    def follow(self, name: str, output: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Pieces of `output` as they come. Raises TooManyFollowers."""
        with self._lock:
            if self._now.total() >= self._most or self._now[name] >= self._most_each:
                raise TooManyFollowers
            self._now[name] += 1
        reading = threading.Event()
        pieces = self._pieces(name, output, reading)
        # Whose client leaves before the answer begins is never asked for a piece.
        weakref.finalize(pieces, self._give_back_unread, name, reading).atexit = False
        return pieces

    def _give_back(self, name: str) -> None:
        with self._lock:
            self._now[name] -= 1

    def _give_back_unread(self, name: str, reading: threading.Event) -> None:
        if not reading.is_set():
            self._give_back(name)

    async def _pieces(
        self, name: str, output: Iterator[bytes], reading: threading.Event
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        room, gone = threading.Semaphore(READ_AHEAD), threading.Event()

        def hand(piece: bytes | None) -> None:
            if not gone.is_set():
                call_in(loop, pieces.put_nowait, piece)

        def read() -> None:
            try:
                for piece in output:
                    room.acquire()
                    if gone.is_set():
                        return
                    hand(piece)
            finally:
                self._give_back(name)  # Before anybody is told of the end, and comes again.
                hand(None)

        threading.Thread(target=read, name="bai-follower", daemon=True).start()
        reading.set()
        try:
            while (piece := await pieces.get()) is not None:
                room.release()
                yield piece
        finally:
            gone.set()
            room.release()
            if isinstance(output, LogStream):
                output.abort()
