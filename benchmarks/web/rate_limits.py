"""Limits of rates, 20 at once and one a second for each sender: ours, limits' and pyrate-limiter's."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol
from unittest import mock

from benchmarks.web.turns import bytes_of, cpu_us, import_ms
from reconciler.gitops.rate_limit import MAX_SENDERS, SenderRateLimit

RATE, BURST = 1.0, 20
TAKES, SENDERS, STRANGERS = 5000, 200, 20_000
SECONDS, HOUR = 19, 3600


class Limit(Protocol):
    """`take`: whether one more of a sender's is let through; `now` in seconds of a monotonic clock."""

    senders: Callable[[], int]

    def take(self, sender: str, now: float) -> bool: ...


class Ours:
    def __init__(self) -> None:
        self._limit = SenderRateLimit(RATE, BURST)
        self.take = self._limit.take
        self.senders = lambda: len(self._limit._buckets)


class Limits:
    """Its nearest strategy: no more than 20 in any 20 seconds. The clock is its own."""

    def __init__(self) -> None:
        from limits import RateLimitItemPerSecond
        from limits.storage import MemoryStorage
        from limits.strategies import MovingWindowRateLimiter

        self._item, self._storage = RateLimitItemPerSecond(BURST, int(BURST / RATE)), MemoryStorage()
        self._limiter = MovingWindowRateLimiter(self._storage)
        self.senders = lambda: len(self._storage.events)

    def take(self, sender: str, now: float) -> bool:
        return self._limiter.hit(self._item, sender)


class Pyrate:
    """A bucket for each sender in a dict, since none of its own is bounded."""

    def __init__(self) -> None:
        from pyrate_limiter import Rate, RateItem, StateBucket, TokenBucket

        self._make: Callable[[], Any] = lambda: StateBucket(
            [Rate(int(RATE), 1000, burst=BURST)], TokenBucket()
        )
        self._item = RateItem
        self._buckets: dict[str, Any] = {}
        self.senders = lambda: len(self._buckets)

    def take(self, sender: str, now: float) -> bool:
        if sender not in self._buckets:
            self._buckets[sender] = self._make()
        return bool(self._buckets[sender].put(self._item(sender, int(now * 1000))))


ALL: dict[str, Callable[[], Limit]] = {"bai": Ours, "limits": Limits, "pyrate-limiter": Pyrate}
MODULES = {"bai": "reconciler.gitops.rate_limit", "limits": "limits", "pyrate-limiter": "pyrate_limiter"}


@contextlib.contextmanager
def _shifted(seconds: float) -> Iterator[None]:
    """The machine's clock, but not the monotonic one, is so much ahead."""
    real = time.time
    with mock.patch("time.time", lambda: real() + seconds):
        yield


def _names(count: int) -> list[str]:
    return [f"198.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}" for number in range(count)]


def _take_often(limit: Limit, names: list[str]) -> None:
    now = time.monotonic()
    for number in range(TAKES):
        limit.take(names[number % SENDERS], now)


def _let_through_after_a_burst(limit: Limit) -> int:
    """Of one message in each of 19 seconds that follow on 20 at once: all, says `one a second`."""
    began = time.monotonic()
    assert [limit.take("a", began) for _ in range(BURST)] == [True] * BURST
    found = 0
    for second in range(1, SECONDS + 1):
        with _shifted(second):
            found += limit.take("a", began + second)
    return found


def _refused_after_the_clock_was_set_back(limit: Limit) -> int:
    """Minutes for which a sender is refused who sent 20 while the clock was an hour ahead."""
    began = time.monotonic()
    with _shifted(HOUR):
        for _ in range(BURST):
            limit.take("a", began)
    for minute in range(1, 2 * HOUR // 60):
        with _shifted(60 * minute):
            if limit.take("a", began + 60 * minute):
                return minute
    return 2 * HOUR // 60


def _threads_a_second(limit: Limit) -> int:
    """Threads that are started while one message comes each millisecond."""
    started, start = 0, threading.Thread.start

    def counted(self: threading.Thread) -> None:
        nonlocal started
        started += 1
        start(self)

    with mock.patch.object(threading.Thread, "start", counted):
        until = time.monotonic() + 1
        while (now := time.monotonic()) < until:
            limit.take("a", now)
            time.sleep(0.001)
    return started


def _filled(make: Callable[[], Limit], count: int) -> Limit:
    limit = make()
    for name in _names(count):
        for _ in range(BURST):
            limit.take(name, 1.0)
    return limit


def rate_limits() -> dict[str, Any]:
    """Promises and costs of each."""
    made = {name: make for name, make in ALL.items() if importlib.util.find_spec(MODULES[name]) is not None}
    return {
        "of 19, a second apart after 20 at once": {
            name: _let_through_after_a_burst(make()) for name, make in made.items()
        },
        "minutes refused after the clock was an hour ahead": {
            name: _refused_after_the_clock_was_set_back(make()) for name, make in made.items()
        },
        f"senders known of {STRANGERS}": {n: _filled(m, STRANGERS).senders() for n, m in made.items()},
        "threads started a second": {name: _threads_a_second(make()) for name, make in made.items()},
        "bytes of a sender": {
            name: bytes_of(partial(_filled, make, MAX_SENDERS)) // MAX_SENDERS for name, make in made.items()
        },
        "us of CPU for a message": cpu_us(
            {name: partial(_take_often, make(), _names(SENDERS)) for name, make in made.items()}, TAKES
        ),
        "ms of CPU for the import": {
            name: import_ms(MODULES[name], "ipaddress, collections, threading") for name in made
        },
    }  # fmt: skip
