"""Connections that are made in threads: a node that is gone may take its time."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

from providers.machines.base import Stream

_KEPT = 10.0
"""Seconds for which a thread waits for the next one to dial."""


class _Diallers:
    """Threads that dial, as many as there are dials at a time; kept for a while, as beginning one takes
    longer than a dial within this machine."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, job: Callable[[], None]) -> None:
        if self._idle.acquire(blocking=False):
            self._jobs.put(job)
        else:
            threading.Thread(target=self._work, args=(job,), name="relay-dial", daemon=True).start()

    def _work(self, job: Callable[[], None]) -> None:
        while True:
            job()
            self._idle.release()
            try:
                job = self._jobs.get(timeout=_KEPT)
            except queue.Empty:
                if self._idle.acquire(blocking=False):
                    return
                job = self._jobs.get()  # Somebody counts on us.


_DIALLERS = _Diallers()


async def dialled(connect: Callable[[], Stream]) -> Stream:
    """In a thread that nobody waits for at the end of the program: a node that is gone may take its time."""
    dialled: Future[Stream] = Future()

    def run() -> None:
        try:
            stream = connect()
        except BaseException as error:
            with contextlib.suppress(InvalidStateError):
                dialled.set_exception(error)
            return
        try:
            dialled.set_result(stream)
        except InvalidStateError:  # Nobody wants it any more.
            stream.close()

    _DIALLERS.submit(run)
    try:
        return await asyncio.wrap_future(dialled)
    except asyncio.CancelledError:
        if not dialled.cancel() and dialled.exception() is None:  # It came with the end.
            dialled.result().close()
        raise
