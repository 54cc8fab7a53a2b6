"""Resources that keep failing are left alone for a while, longer each time; a changed document is tried at
once. Pure but for what it remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FIRST_DELAY = 30.0
MAX_DELAY = 1800.0


@dataclass(frozen=True, slots=True)
class Failures:
    """How often one document has failed in a row, and when it is tried again."""

    digest: str
    count: int
    until: float
    delay: float = MAX_DELAY
    """Seconds from the failure to that time: when more than these are left, the clock was set back."""


class Backoff:
    """One loop's memory. Times are seconds."""

    def __init__(self, first: float = FIRST_DELAY, most: float = MAX_DELAY) -> None:
        self._first, self._most = first, most
        self._known: dict[str, Failures] = {}

    def record_failure(self, resource: str, digest: str, now: float) -> float:
        """It failed (again): gives the seconds until it is tried again."""
        known = self._known.get(resource)
        count = known.count + 1 if known is not None and known.digest == digest else 1
        delay = min(self._most, self._first * 2.0 ** (count - 1))
        self._known[resource] = Failures(digest, count, now + delay, delay)
        return delay

    def record_success(self, resource: str) -> None:
        self._known.pop(resource, None)

    def held_back(self, digests: Mapping[str, str], now: float) -> frozenset[str]:
        """Those that are not to be tried now."""
        known = self._known.items()
        return frozenset(
            resource
            for resource, one in known
            if 0 < one.until - now <= one.delay and digests.get(resource, "") == one.digest
        )
