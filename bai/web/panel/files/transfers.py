"""Files between threads that read and write them and connections that must not wait for them.

Each transfer has a thread of its own, so that one that hangs holds up nobody else; there are only so many,
for one person and in all. A place is given back when its thread has let go of everything.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from bai.web.streaming import call_in

MOST_TRANSFERS = 32
"""At a time, in all."""
MOST_PER_USER = 6
"""Of one person."""
READ_AHEAD = 8
"""Pieces that are kept for whoever is slower."""
T = TypeVar("T")


class TooManyTransfers(Exception):
    """Nobody more can fetch or send just now."""


class BrokenOff(Exception):
    """Whoever sent a file is gone."""


@dataclass(frozen=True, slots=True)
class Download:
    """What comes out, and how many bytes that are, where it is known."""

    pieces: Iterator[bytes]
    size: int | None = None


class Transfers:
    """All of a server."""

    def __init__(self, most: int = MOST_TRANSFERS, most_each: int = MOST_PER_USER) -> None:
        self._most, self._most_each = most, most_each
        self._lock = threading.Lock()
        self._now: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many there are now."""
        with self._lock:
            return self._now.total()

    async def ask(self, user: str, call: Callable[[], T]) -> T:
        """What a call answers. Raises what it raises, and TooManyTransfers."""
        found = _Handover(asyncio.get_running_loop())
        self._start(user, lambda: found.put(call()), found)
        answer: T = await found.next()
        return answer

    async def download(self, user: str, begin: Callable[[], Download]) -> tuple[int | None, Pieces]:
        """The size and the pieces of what `begin` gives. Raises what that raises, and TooManyTransfers; the
        pieces raise what theirs do."""
        given = _Handover(asyncio.get_running_loop())

        def run() -> None:
            found = begin()
            try:
                given.put(found.size)
                for piece in found.pieces:
                    if not given.put(piece):
                        return
            finally:
                if isinstance(found.pieces, Generator):
                    found.pieces.close()

        self._start(user, run, given)
        try:
            size = await given.next()
        except BaseException:
            given.leave()
            raise
        return size, Pieces(given)

    async def upload(
        self, user: str, chunks: AsyncIterator[bytes], write: Callable[[Iterator[bytes]], None]
    ) -> None:
        """Have `write` read all `chunks`, or until it has enough. Raises what it raises, and
        TooManyTransfers; `write` is told BrokenOff where they end before their time."""
        done, taken = _Handover(asyncio.get_running_loop()), _Sent(asyncio.get_running_loop())

        def run() -> None:
            write(taken.pieces())
            done.put(None)

        self._start(user, run, done, taken.stop)
        try:
            async for chunk in chunks:
                if chunk and not await taken.send(chunk):
                    break
            else:
                taken.end(None)
            await done.next()
        except BaseException:
            taken.end(BrokenOff())
            raise

    def _start(
        self, user: str, run: Callable[[], object], told: _Handover, stop: Callable[[], None] = lambda: None
    ) -> None:
        with self._lock:
            if self._now.total() >= self._most or self._now[user] >= self._most_each:
                raise TooManyTransfers
            self._now[user] += 1

        def whole() -> None:
            end: Exception = StopAsyncIteration()
            try:
                run()
            except Exception as error:
                end = error
            finally:
                with self._lock:  # Before anybody is told of the end, and comes again.
                    self._now[user] -= 1
                stop()
                told.end(end)

        try:
            threading.Thread(target=whole, name="bai-transfer", daemon=True).start()
        except BaseException:
            with self._lock:
                self._now[user] -= 1
            raise


class _Handover:
    """From a thread to a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._given: asyncio.Queue[tuple[Any, Exception | None]] = asyncio.Queue()
        self._room, self._gone = threading.Semaphore(READ_AHEAD), threading.Event()

    def put(self, item: object) -> bool:
        """False where nobody takes it."""
        self._room.acquire()
        if self._gone.is_set():
            return False
        call_in(self._loop, self._given.put_nowait, (item, None))
        return True

    def end(self, why: Exception) -> None:
        call_in(self._loop, self._given.put_nowait, (None, why))

    def leave(self) -> None:
        self._gone.set()
        self._room.release()

    async def next(self) -> Any:
        """Raises StopAsyncIteration at the end, and what ended it."""
        item, why = await self._given.get()
        if why is not None:
            raise why
        self._room.release()
        return item


class Pieces:
    """What a thread gives. Whoever forgets them has left, too."""

    def __init__(self, given: _Handover) -> None:
        self._given = given
        self.leave = given.leave
        weakref.finalize(self, given.leave).atexit = False

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        piece: bytes = await self._given.next()
        return piece


class _Sent:
    """From a connection to a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pieces: queue.SimpleQueue[bytes | BrokenOff | None] = queue.SimpleQueue()
        self._room, self._stopped = asyncio.Semaphore(READ_AHEAD), False

    async def send(self, piece: bytes) -> bool:
        """False where nobody takes it any more."""
        await self._room.acquire()
        self._pieces.put(piece)
        return not self._stopped

    def end(self, why: BrokenOff | None) -> None:
        self._pieces.put(why)

    def stop(self) -> None:
        def stopped() -> None:
            self._stopped = True
            self._room.release()

        call_in(self._loop, stopped)

    def pieces(self) -> Iterator[bytes]:
        while (piece := self._pieces.get()) is not None:
            if isinstance(piece, BrokenOff):
                raise piece
            call_in(self._loop, self._room.release)
            yield piece
