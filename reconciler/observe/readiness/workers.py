"""Threads that are made when there is work for one more, and go when there has been none for a while."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

_IDLE = 30.0
"""Seconds without work after which one goes."""


class Workers:
    """Whoever starts work bounds how much of it there is at a time. A job must not raise. Nobody waits for
    them at the end of the program: what a job is waiting for may never come."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def start(self, job: Callable[[], None]) -> None:
        """In another thread, at once."""
        with self._lock:
            self._jobs.put(job)
            if self._idle:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            job()
            with self._lock:
                self._idle += 1

    def _next_job(self) -> Callable[[], None] | None:
        while True:
            try:
                return self._jobs.get(timeout=_IDLE)
            except queue.Empty:
                with self._lock:
                    # A job that was started just now counts on this thread.
                    if self._jobs.empty():
                        self._idle -= 1
                        return None
