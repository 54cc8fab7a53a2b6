"""How often something may happen: token buckets, one for all or one for each sender. Pure."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

MAX_SENDERS = 4096
"""Senders that are known at a time; who was quiet the longest is forgotten first."""


class TokenBucket:
    """At most `burst` at once, `rate` a second over time."""

    __slots__ = ("_burst", "_left", "_rate", "_since")

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._left, self._since = float(burst), 0.0

    def is_exhausted(self, now: float) -> bool:
        """Whether one more would be too many; `now` in seconds, only ever growing."""
        self._left = min(self._burst, self._left + max(0.0, now - self._since) * self._rate)
        self._since = now
        return self._left < 1

    def take(self, now: float) -> bool:
        """Count one; False when it is too many."""
        if self.is_exhausted(now):
            return False
        self._left -= 1
        return True


class SenderRateLimit:
    """A bucket for each sender. A network of 64 bits is one: whoever has one address of IPv6 has many."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def is_exhausted(self, sender: str, now: float) -> bool:
        """Whether one more of theirs would be too many."""
        found = self._buckets.get(sender_network(sender))
        return found is not None and found.is_exhausted(now)

    def take(self, sender: str, now: float) -> bool:
        """Count one of theirs; False when it is too many."""
        name = sender_network(sender)
        bucket = self._buckets.setdefault(name, TokenBucket(self._rate, self._burst))
        self._buckets.move_to_end(name)
        if len(self._buckets) > MAX_SENDERS:
            self._buckets.popitem(last=False)
        return bucket.take(now)


def sender_network(sender: str) -> str:
    """By which a sender is known: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        address = ipaddress.ip_address(sender.partition("%")[0])
    except ValueError:
        return sender
    if address.version == 4 or address.ipv4_mapped is not None:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
