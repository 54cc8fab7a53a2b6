"""Connections joined to other streams: any number at a time, each half closed as its ends do.

One event loop carries all whose streams are sockets, so a connection at rest costs two open files and no
thread. A stream that is none (a channel in SSH) takes two threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import select
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

from providers.machines.base import Stream
from providers.machines.dialling import dialled
from schemas.problems.errors.base import BaiError

CHUNK = 1 << 16
HIGH_WATER = 1 << 18
"""Bytes that one side may be behind the other."""
DIALS = 64
"""Connections that are being made at a time, and of one listener:"""
DIALS_EACH = 8
_PAUSE = 0.5
"""Seconds without accepting where there are no open files left."""
BROKEN = (OSError, EOFError, BaiError)
"""How a connection fails."""


class Way(Protocol):
    """Where one connection leads to: `wait`, then `connect`, and what that gave is `over` at last."""

    async def wait(self, gone: Callable[[], bool]) -> None:
        """Until it can be connected, or whoever wants it is `gone`: this counts for no limit of dials."""
        ...

    async def connect(self) -> Stream:
        """Raises one of BROKEN."""
        ...

    def answered(self) -> None:
        """The first bytes have come back."""
        ...

    def over(self) -> None:
        """What `connect` gave is closed."""
        ...


@dataclass(frozen=True, slots=True)
class DialledWay:
    """Each is dialled in a thread; `dial` may take its time."""

    dial: Callable[[], Stream]

    async def wait(self, gone: Callable[[], bool]) -> None:
        return None

    async def connect(self) -> Stream:
        return await dialled(self.dial)

    def answered(self) -> None:
        return None

    def over(self) -> None:
        return None


@dataclass(eq=False, slots=True)
class Listening:
    """A listener's connections. `new_way` gives each of them its own; `say` hears why one failed; `admits`:
    whether whoever has this address may connect."""

    listener: socket.socket
    new_way: Callable[[], Way]
    say: Callable[[str], None]
    most: int
    open: int = 0
    dialling: asyncio.Semaphore = field(kw_only=True)
    admits: Callable[[str], bool] | None = None
    closed: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    streams: set[Stream] = field(default_factory=set)
    """Of connections that are joined."""


class Relay:
    """May be used from several threads; `close` cuts what is open."""

    def __init__(
        self, most: int, new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    ) -> None:
        self._most = most
        self._open = 0
        self._loop = new_loop()
        self._dials = asyncio.Semaphore(DIALS)
        self._streams: set[Stream] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: set[Listening] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()

    def listen(
        self, listener: socket.socket, new_way: Callable[[], Way], say: Callable[[str], None], most: int,
        dials: int = DIALS_EACH, admits: Callable[[str], bool] | None = None,
    ) -> Listening:  # fmt: skip
        """Accept on `listener`, which is the relay's from now on, at most `most` connections at a time, of
        which at most `dials` are being made; of addresses that `admits` takes, where that is said."""
        listener.setblocking(False)
        slots = asyncio.Semaphore(dials)
        listening = Listening(listener, new_way, say, most, dialling=slots, admits=admits)
        self._loop.call_soon_threadsafe(self._begin, listening)
        return listening

    def end(self, listening: Listening) -> None:
        """No further connections; those that are open go on."""
        self._loop.call_soon_threadsafe(self._end, listening)

    def end_now(self, listening: Listening, *, cut: bool) -> None:
        """The same, done when it comes back. `cut`: those that are open end as well."""
        asyncio.run_coroutine_threadsafe(self._end_now(listening, cut=cut), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # In the loop's thread.

    def _begin(self, listening: Listening) -> None:
        if not listening.closed:
            self._listeners.add(listening)
            self._loop.add_reader(listening.listener.fileno(), self._accept, listening)

    def _end(self, listening: Listening) -> None:
        if not listening.closed:
            listening.closed = True
            self._listeners.discard(listening)
            self._loop.remove_reader(listening.listener.fileno())
            listening.listener.close()

    async def _end_now(self, listening: Listening, *, cut: bool) -> None:
        self._end(listening)
        if cut:
            await _ended(listening.tasks, listening.streams)

    async def _cut(self) -> None:
        for listening in list(self._listeners):
            self._end(listening)
        await _ended(self._tasks, self._streams)

    def _accept(self, listening: Listening) -> None:
        while not listening.closed:
            try:
                near, peer = listening.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                listening.say(reason(error))
                self._loop.remove_reader(listening.listener.fileno())
                self._loop.call_later(_PAUSE, self._begin, listening)
                return
            if listening.admits is not None and not listening.admits(peer[0]):
                near.close()
                continue
            if self._open >= self._most or listening.open >= listening.most:
                listening.say("there are too many connections")
                near.close()
                continue
            self._open += 1
            listening.open += 1
            task = self._loop.create_task(self._serve(listening, near))
            for tasks in (self._tasks, listening.tasks):
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def _serve(self, listening: Listening, near: socket.socket) -> None:
        way = listening.new_way()
        try:
            await way.wait(partial(_has_hung_up, near))
            async with listening.dialling, self._dials:
                far = await way.connect()
        except BROKEN as error:
            listening.say(reason(error))
            near.close()
        except asyncio.CancelledError:
            near.close()
            raise
        else:
            try:
                await self._join(listening, near, far, way)
            finally:
                way.over()
        finally:
            self._open -= 1
            listening.open -= 1

    async def _join(self, listening: Listening, near: socket.socket, far: Stream, way: Way) -> None:
        for streams in (self._streams, listening.streams):
            streams |= {near, far}
        try:
            if isinstance(far, socket.socket) and not isinstance(far, ssl.SSLSocket):
                await _join_sockets(self._loop, near, far, way.answered)
            else:
                near.setblocking(True)
                await _join_in_threads(self._loop, near, far)
        finally:
            for streams in (self._streams, listening.streams):
                streams -= {near, far}
            near.close()
            far.close()


async def _ended(tasks: set[asyncio.Task[None]], streams: set[Stream]) -> None:
    """When connections have been cut."""
    them = list(tasks)
    for stream in list(streams):
        shut_down(stream)
    for task in them:
        task.cancel()
    await asyncio.gather(*them, return_exceptions=True)


class _End(asyncio.Protocol):
    """One of two that are joined."""

    def __init__(self, gone: asyncio.Future[None], began: Callable[[], None] | None = None) -> None:
        """`began`: called once, with the first bytes."""
        self._gone, self._began = gone, began
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self._early: list[bytes] = []
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # Of uvloop they are no subclass of it.
        self.transport.set_write_buffer_limits(high=HIGH_WATER)

    def join(self, other: _End) -> None:
        """What has come before is sent on first."""
        self.other = other
        target = self._other_transport()
        if target is None or target.is_closing():
            return
        for data in self._early:
            target.write(data)
        self._early.clear()
        if self._gone.done() or (self._ended and other._ended):
            target.close()
        elif self._ended and target.can_write_eof():
            target.write_eof()

    def data_received(self, data: bytes) -> None:
        if self._began is not None:
            began, self._began = self._began, None
            began()
        other = self._other_transport()
        if other is None:
            self._early.append(data)
        else:
            other.write(data)

    def eof_received(self) -> bool:
        """The other direction goes on until it ends as well."""
        self._ended = True
        other = self._other_transport()
        if other is not None and other.can_write_eof():
            other.write_eof()
        return self.other is None or not self.other._ended

    def pause_writing(self) -> None:
        other = self._other_transport()
        if other is not None and not other.is_closing():
            other.pause_reading()

    def resume_writing(self) -> None:
        other = self._other_transport()
        if other is not None and not other.is_closing():
            other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """A broken side breaks both; what an ended one has sent is still sent on."""
        other = self._other_transport()
        if other is not None:
            if exc is not None:
                other.abort()
            else:
                other.close()
        if not self._gone.done():
            self._gone.set_result(None)

    def _other_transport(self) -> asyncio.Transport | None:
        return self.other.transport if self.other is not None else None


async def _join_sockets(
    loop: asyncio.AbstractEventLoop, near: socket.socket, far: socket.socket, answered: Callable[[], None]
) -> None:
    far.setblocking(False)
    gone: list[asyncio.Future[None]] = [loop.create_future(), loop.create_future()]
    ends = (_End(gone[0]), _End(gone[1], answered))
    try:
        for end, connection in zip(ends, (near, far), strict=True):
            await loop.connect_accepted_socket(partial(_same, end), connection)
        ends[0].join(ends[1])
        ends[1].join(ends[0])
        await asyncio.gather(*gone)
    finally:
        for end in ends:
            if end.transport is not None:
                end.transport.abort()


def _same(end: _End) -> _End:
    return end


async def _join_in_threads(loop: asyncio.AbstractEventLoop, near: Stream, far: Stream) -> None:
    over = asyncio.Event()

    def run() -> None:
        back = threading.Thread(target=pump, args=(far, near), name="relay-back", daemon=True)
        back.start()
        pump(near, far)
        back.join()
        with contextlib.suppress(RuntimeError):  # The loop may be over as well.
            loop.call_soon_threadsafe(over.set)

    threading.Thread(target=run, name="relay-forth", daemon=True).start()
    await over.wait()


def reason(error: BaseException) -> str:
    """Why a connection failed, in words."""
    if isinstance(error, BaiError):
        return error.message
    return str(getattr(error, "strerror", None) or error).lower()


def _has_hung_up(near: socket.socket) -> bool:
    """Whether the other end is closed, whatever it has sent before."""
    looked = select.poll()
    looked.register(near, 0)  # Ends and errors are told unasked.
    return bool(looked.poll(0))


def shut_down(stream: Stream) -> None:
    with contextlib.suppress(*BROKEN):
        stream.shutdown(socket.SHUT_RDWR)


def pump(source: Stream, target: Stream) -> None:
    """Everything from one to the other, which is told then that no more comes. A broken side breaks both."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
    except BROKEN:
        for stream in (source, target):
            shut_down(stream)
        return
    with contextlib.suppress(OSError, EOFError):
        target.shutdown(socket.SHUT_WR)
