"""What kernels use, for many who ask: measured no more often than one of them would."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:
    from providers.abilities import MeasuresUsage, Usage

LEAST_PAUSE = 2.0
"""Seconds between two measurements."""
SHARE = 9
"""A pause is so many times as long as the measurement before it took: a tenth of the time is measured."""


class SharedUsage:
    """Thread-safe. While one measures, others get what was measured before, and wait only for the first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._latest: Mapping[str, Usage] | ProviderError | None = None
        self._due = 0.0

    def measure(self, provider: MeasuresUsage) -> Mapping[str, Usage]:
        """Kernel → what it has used. Raises ProviderError, also what the last measurement raised."""
        latest = self._latest
        if self._lock.acquire(blocking=latest is None):
            try:
                if self._latest is None or self._clock() >= self._due:
                    self._measure(provider)
                latest = self._latest
            finally:
                self._lock.release()
        if isinstance(latest, ProviderError):
            raise latest.with_traceback(None)
        assert latest is not None
        return latest

    def _measure(self, provider: MeasuresUsage) -> None:
        began = self._clock()
        try:
            self._latest = {use.kernel: use for use in provider.usage()}
        except ProviderError as error:
            self._latest = error
        ended = self._clock()
        self._due = ended + max(LEAST_PAUSE, SHARE * (ended - began))
