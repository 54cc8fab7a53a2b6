"""What a loop is at, told as it happens: for clocks, traces, and whoever looks whether it is alive.

A loop calls `stage` around each part of a pass and `event` for all that an apply tells. Both are called in
the loop's thread, and must neither raise nor wait.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from reconciler.values.results import ApplyEvent

STUCK_AFTER = 900.0
"""Seconds in which a loop that is at work must show life."""
Stage = Literal["pass", "observe", "plan", "apply"]


class StageListener(Protocol):
    def stage(self, stage: Stage, cluster: str) -> AbstractContextManager[None]:
        """Entered when it begins, left when it ends; with the error when it failed."""
        ...

    def event(self, event: ApplyEvent, cluster: str) -> None:
        """An apply has come further."""
        ...


class NoStageListener:
    """Nobody listens."""

    def stage(self, stage: Stage, cluster: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def event(self, event: ApplyEvent, cluster: str) -> None:
        pass


class LoopPulse:
    """For how long a loop that is at work has shown no life; one that waits for its next pass is well.

    Every beginning and end of a stage, and everything that an apply tells, is a sign of life.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._deep = 0
        self._since = clock()

    @contextlib.contextmanager
    def stage(self, stage: Stage, cluster: str) -> Iterator[None]:
        self._beat(+1)
        try:
            yield
        finally:
            self._beat(-1)

    def event(self, event: ApplyEvent, cluster: str) -> None:
        self._beat(0)

    @property
    def silent(self) -> float:
        """Seconds; 0 while it is not at work."""
        with self._lock:
            return self._clock() - self._since if self._deep else 0.0

    def _beat(self, deeper: int) -> None:
        with self._lock:
            self._deep += deeper
            self._since = self._clock()


class StageListeners:
    """All of these listen."""

    def __init__(self, listeners: Sequence[StageListener]) -> None:
        self._listeners = tuple(listeners)

    @contextlib.contextmanager
    def stage(self, stage: Stage, cluster: str) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for each in self._listeners:
                stack.enter_context(each.stage(stage, cluster))
            yield

    def event(self, event: ApplyEvent, cluster: str) -> None:
        for each in self._listeners:
            each.event(event, cluster)


def stuck_loops(pulses: Mapping[str, LoopPulse], limit: float) -> str:
    """Whose loop has been at work for more than `limit` seconds without a sign of life; empty: nobody's."""
    silent = {name: pulse.silent for name, pulse in pulses.items()}
    found = [f"{name} for {seconds:.0f} s" for name, seconds in silent.items() if seconds > limit]
    return f"no sign of life: {', '.join(found)}" if found else ""
