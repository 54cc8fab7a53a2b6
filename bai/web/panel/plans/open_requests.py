"""The pull requests that wait on a forge: asked for while somebody looks, at bounded intervals, by a thread
of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.problems.errors.base import BaiError

if TYPE_CHECKING:
    from providers.forge.base import OpenRequest

INTERVAL = 60.0
"""Seconds after which the forge is asked again, if somebody looks."""
PATIENCE = 2.0
"""Seconds that a page waits for the forge's first answer."""
Ask = Callable[[], "list[OpenRequest]"]


@dataclass(frozen=True, slots=True)
class KnownRequests:
    """What a forge said last. `problem`: why it is not what it says now; `asked`: whether it has answered."""

    requests: tuple[OpenRequest, ...] = ()
    problem: str = ""
    asked: bool = False


class OpenRequests:
    """`ask` asks the forge. Thread-safe."""

    def __init__(self, ask: Ask, interval: float = INTERVAL) -> None:
        self._ask, self._interval = ask, interval
        self._lock = threading.Lock()
        self._known = KnownRequests()
        self._next = 0.0
        self._answered = threading.Event()

    def known(self) -> KnownRequests:
        """What is known now; whoever looks has the forge asked where that is too old."""
        with self._lock:
            due = time.monotonic() >= self._next
            if due:
                self._next = time.monotonic() + self._interval
        if due:
            threading.Thread(target=self._renew, name="forge", daemon=True).start()
        self._answered.wait(PATIENCE)
        with self._lock:
            return self._known

    def _renew(self) -> None:
        try:
            found = KnownRequests(tuple(self._ask()), asked=True)
        except BaiError as error:
            with self._lock:
                found = KnownRequests(self._known.requests, str(error), asked=True)
        with self._lock:
            self._known, self._next = found, time.monotonic() + self._interval
        self._answered.set()
