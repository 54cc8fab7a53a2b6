"""Where effects run: a seam, so that the engine's own thread is the only one that writes, and a simulation
chooses the order."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

EndedEffect = tuple[int, BaseException | None]
"""The number an effect was submitted under, and what it raised."""


class Runner(Protocol):
    """Runs effects at the same time. Called from one thread only."""

    def submit(self, number: int, effect: Callable[[], None]) -> None: ...

    def wait(self, timeout: float) -> list[EndedEffect]:
        """What has ended since the last call; waits up to `timeout` real seconds for the first."""
        ...

    def close(self) -> None:
        """Wait for what still runs."""
        ...


class ThreadRunner:
    """Effects in threads."""

    def __init__(self, parallel: int) -> None:
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="bai-apply")
        self._ended: queue.SimpleQueue[EndedEffect] = queue.SimpleQueue()

    def submit(self, number: int, effect: Callable[[], None]) -> None:
        self._pool.submit(self._run, number, effect)

    def _run(self, number: int, effect: Callable[[], None]) -> None:
        try:
            effect()
        except BaseException as error:
            self._ended.put((number, error))
        else:
            self._ended.put((number, None))

    def wait(self, timeout: float) -> list[EndedEffect]:
        try:
            ended = [self._ended.get(timeout=timeout)]
        except queue.Empty:
            return []
        while not self._ended.empty():
            ended.append(self._ended.get())
        return ended

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
