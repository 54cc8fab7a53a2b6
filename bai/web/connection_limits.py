"""Which connections are open, and which one ends when there is no room for another. Pure.

There is room for so many in all and for so many of one address. Past that, whoever waits makes room: first a
connection on which no whole request has come, then one that is slow to send a request or to take an answer;
never one that is being answered. Where all are, what comes is let in for probes alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Protocol

from bai.web.auth.networks import Network, within
from reconciler.gitops.rate_limit import network

RESERVE = 32
"""Connections beyond all others, for probes."""
LOOKED_AT = 64
"""How many of those that may end are compared, whatever comes."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What clients may take. Times in seconds, each from beginning to end, however it goes meanwhile."""

    connections: int = 512
    """At a time, in all."""
    per_address: int = 128
    """Of one IPv4 address or one /64 network."""
    proxies: tuple[Network, ...] = ()
    """Whose connections are many clients': only `connections` bounds them."""
    header: float = 10.0
    """For the head of a request, from its first byte; of the first request, from the connection's begin."""
    body: float = 30.0
    """For a request's body, and without a client taking what it is sent."""
    idle: float = 15.0
    """Between an answer and the next request."""


class At(Enum):
    """What a connection is at."""

    waiting = "waiting"
    """Nothing to do: the next request has not come, or not all of its head."""
    slow = "slow"
    """The client has to send more of a body, or to take what it was sent."""
    answered = "answered"
    """The request is whole, its answer is made or on its way."""


class Connection(Protocol):
    """What is counted."""

    @property
    def address(self) -> str: ...

    def drop(self) -> None:
        """End it now."""
        ...


class Admission(Enum):
    """Whether a connection is let in."""

    whole = "whole"
    probes = "probes"
    """For probes alone."""
    refused = "refused"


class _Crowd:
    """Connections by what they are at; those that came to it first are first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._at: dict[At, OrderedDict[Connection, None]] = {each: OrderedDict() for each in At}

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))

    @property
    def full(self) -> bool:
        return len(self) >= self._most

    def longest(self, size: Callable[[Connection], int]) -> Connection | None:
        """The one that makes room: of those that wait the longest, the first that is of the largest size.
        None where all are being answered."""
        found = islice(self._at[At.waiting] or self._at[At.slow], LOOKED_AT)
        return max(found, key=size, default=None)

    def put(self, connection: Connection, at: At) -> None:
        self.remove(connection)
        self._at[at][connection] = None

    def remove(self, connection: Connection) -> None:
        for each in self._at.values():
            each.pop(connection, None)


class Connections:
    """All of a server. Not thread-safe: the event loop's alone."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._all, self._reserve = _Crowd(bounds.connections), _Crowd(RESERVE)
        self._by_address: dict[str, _Crowd] = {}
        self._crowds: dict[Connection, tuple[_Crowd, ...]] = {}

    def __len__(self) -> int:
        return len(self._crowds)

    def admit(self, connection: Connection) -> Admission:
        """Let one in, if need be in the place of another. One that is not refused is `left` in the end."""
        here = self._of(connection.address)
        if self._room(here) and self._room(self._all):
            self._enter(connection, here, self._all)
            return Admission.whole
        if self._room(self._reserve):
            self._enter(connection, self._reserve)
            return Admission.probes
        return Admission.refused

    def moved(self, connection: Connection, at: At) -> None:
        """It is at something else."""
        for crowd in self._crowds.get(connection, ()):
            crowd.put(connection, at)

    def left(self, connection: Connection) -> None:
        """It is over. No harm in saying so again."""
        for crowd in self._crowds.pop(connection, ()):
            crowd.remove(connection)
        name = network(connection.address)
        if name in self._by_address and not len(self._by_address[name]):
            del self._by_address[name]

    def _of(self, address: str) -> _Crowd:
        most = self.bounds.connections if within(address, self.bounds.proxies) else self.bounds.per_address
        return self._by_address.get(network(address)) or _Crowd(most)

    def _enter(self, connection: Connection, *crowds: _Crowd) -> None:
        self._crowds[connection] = crowds
        if self._all in crowds:
            self._by_address[network(connection.address)] = crowds[0]
        self.moved(connection, At.waiting)

    def _room(self, crowd: _Crowd) -> bool:
        """Whether there is room, made by ending one of them where it must be."""
        if not crowd.full:
            return True
        found = crowd.longest(self._neighbours)
        if found is None:
            return False
        self.left(found)
        found.drop()
        return True

    def _neighbours(self, connection: Connection) -> int:
        """Of the same address: one client with few connections loses none to another's many."""
        return len(self._crowds[connection][0])
