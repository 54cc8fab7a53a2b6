"""Apps of raw TCP at ports of their own: each connection that may come is relayed, whatever it says."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from bai.web.apps.proxy.event_loop import new_event_loop
from bai.web.apps.proxy.ports.listeners import PortOpener
from providers.machines.relay import Listening, Relay, Way

MOST_TCP = 1024
"""Connections in all, and at one port: those of HTTP are not kept out by them."""
MOST_AT_PORT = 512
_DIALS = 32
_MOST_TOLD = 8


@dataclass(frozen=True, slots=True)
class TcpTarget:
    """What is behind a port: `name` of a session or service, by its identity. `networks`: whose clients may
    connect; `port`: as the document has it; `hold`: seconds for which a connection waits for a replica."""

    cluster: str
    identity: str
    name: str
    networks: tuple[str, ...]
    port: int = field(compare=False)
    hold: float = field(default=0.0, compare=False)


@dataclass(slots=True)
class _Mapped:
    target: TcpTarget
    listening: Listening | None = None


class TcpPorts:
    """Ports of `host`. `way_to`: where a connection to a target leads; `say` hears what goes wrong."""

    def __init__(self, host: str, way_to: Callable[[TcpTarget], Way], say: Callable[[str], None]) -> None:
        self._way_to, self._say = way_to, say
        self._opener = PortOpener(host, say)
        self._relay = Relay(MOST_TCP, new_event_loop)
        self._mapped: dict[int, _Mapped] = {}
        self._told: dict[int, set[str]] = {}

    @property
    def failures(self) -> Mapping[int, str]:
        """Port to why it cannot be had."""
        return self._opener.failures

    def follow(self, targets: Mapping[int, TcpTarget], is_gone: Callable[[TcpTarget], bool]) -> None:
        """These ports lead there from now on, and no others do. Connections of what is gone come to their end
        with what they are connected to; those of what may not be reached this way any more are cut."""
        for number, mapped in list(self._mapped.items()):
            wanted = targets.get(number)
            if wanted is not None and wanted == mapped.target:
                mapped.target = wanted
                continue
            del self._mapped[number]
            self._told.pop(number, None)
            if mapped.listening is not None:
                self._relay.end_now(mapped.listening, cut=not is_gone(mapped.target))
        self._opener.forget_others(targets)
        for number, target in targets.items():
            if number not in self._mapped and (listener := self._opener.open(number)) is not None:
                self._mapped[number] = self._begin(number, listener, target)

    def _begin(self, number: int, listener: socket.socket, target: TcpTarget) -> _Mapped:
        mapped = _Mapped(target)
        admits = partial(_is_admitted, tuple(map(ipaddress.ip_network, target.networks)))
        mapped.listening = self._relay.listen(
            listener, lambda: self._way_to(mapped.target), partial(self._failed, number), MOST_AT_PORT,
            _DIALS, admits,
        )  # fmt: skip
        return mapped

    def close(self) -> None:
        """Cuts what is open."""
        self._relay.close()
        self._mapped.clear()

    def _failed(self, number: int, why: str) -> None:
        """The log hears of each reason once, and of a few alone: everybody may connect."""
        told = self._told.setdefault(number, set())
        if why not in told and len(told) < _MOST_TOLD:
            told.add(why)
            self._say(f"a connection to port {number} fails: {why}")


def _is_admitted(networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...], address: str) -> bool:
    peer = ipaddress.ip_address(address.partition("%")[0])
    return any(peer in network for network in networks)
