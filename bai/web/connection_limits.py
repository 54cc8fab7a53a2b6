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
from reconciler.gitops.rate_limit import sender_network

PROBE_RESERVE = 32
"""Connections beyond all others, for probes."""
MOST_COMPARED = 64
"""How many of those that may end are compared, whatever comes."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
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
    upload: int = 10 * 2**30
    """Bytes of a file that a page sends. While it comes, `body` is for each `UPLOAD_STEP` of it."""


UPLOAD_STEP = 64 * 1024
"""Bytes of a file that must come within the time for a body."""


class ConnectionState(Enum):
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


class _ConnectionGroup:
    """Connections by what they are at; those that came to it first are first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_state: dict[ConnectionState, OrderedDict[Connection, None]] = {
            each: OrderedDict() for each in ConnectionState
        }

    def __len__(self) -> int:
        return sum(map(len, self._by_state.values()))

    @property
    def full(self) -> bool:
        return len(self) >= self._most

    def eviction_candidate(self, size: Callable[[Connection], int]) -> Connection | None:
        """The one that makes room: of those that wait the longest, the first that is of the largest size.
        None where all are being answered."""
        found = islice(
            self._by_state[ConnectionState.waiting] or self._by_state[ConnectionState.slow], MOST_COMPARED
        )
        return max(found, key=size, default=None)

    def add(self, connection: Connection, state: ConnectionState) -> None:
        self.remove(connection)
        self._by_state[state][connection] = None

    def remove(self, connection: Connection) -> None:
        for each in self._by_state.values():
            each.pop(connection, None)


class Connections:
    """All of a server. Not thread-safe: the event loop's alone."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all, self._reserve = _ConnectionGroup(limits.connections), _ConnectionGroup(PROBE_RESERVE)
        self._by_address: dict[str, _ConnectionGroup] = {}
        self._groups: dict[Connection, tuple[_ConnectionGroup, ...]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def admit(self, connection: Connection) -> Admission:
        """Let one in, if need be in the place of another. One that is not refused is told to `forget`."""
        here = self._group_of(connection.address)
        if self._make_room(here) and self._make_room(self._all):
            self._register(connection, here, self._all)
            return Admission.whole
        if self._make_room(self._reserve):
            self._register(connection, self._reserve)
            return Admission.probes
        return Admission.refused

    def set_state(self, connection: Connection, state: ConnectionState) -> None:
        """It is at something else."""
        for group in self._groups.get(connection, ()):
            group.add(connection, state)

    def forget(self, connection: Connection) -> None:
        """It is over. No harm in saying so again."""
        for group in self._groups.pop(connection, ()):
            group.remove(connection)
        name = sender_network(connection.address)
        if name in self._by_address and not len(self._by_address[name]):
            del self._by_address[name]

    def _group_of(self, address: str) -> _ConnectionGroup:
        most = self.limits.connections if within(address, self.limits.proxies) else self.limits.per_address
        return self._by_address.get(sender_network(address)) or _ConnectionGroup(most)

    def _register(self, connection: Connection, *groups: _ConnectionGroup) -> None:
        self._groups[connection] = groups
        if self._all in groups:
            self._by_address[sender_network(connection.address)] = groups[0]
        self.set_state(connection, ConnectionState.waiting)

    def _make_room(self, group: _ConnectionGroup) -> bool:
        """Whether there is room, made by ending one of them where it must be."""
        if not group.full:
            return True
        found = group.eviction_candidate(self._group_size)
        if found is None:
            return False
        self.forget(found)
        found.drop()
        return True

    def _group_size(self, connection: Connection) -> int:
        """Of the same address: one client with few connections loses none to another's many."""
        return len(self._groups[connection][0])
