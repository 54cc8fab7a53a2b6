"""Local ports joined to ports of a kernel: any number of connections, each half closed as its ends do."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from providers.machines.relay import DialledWay, Relay
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from providers.machines.base import Stream

BACKLOG = 128
MOST = 4096
"""Connections of one local port at a time."""


@dataclass(frozen=True, slots=True)
class PortMapping:
    """One local port (0: any that is free) and the kernel's."""

    local: int
    port: int
    name: str = ""


class Forwarder:
    """Listens on one local address and connects each caller. Use as a context manager.

    `connect` is called for every connection; `say` hears why one failed. Raises CommandError when the port
    cannot be had.
    """

    def __init__(
        self, address: str, mapping: PortMapping, connect: Callable[[], Stream], say: Callable[[str], None]
    ) -> None:
        self.mapping = mapping
        self._connect = connect
        self._say = say
        self._listener = _listen(address, mapping.local)
        self.address: str = self._listener.getsockname()[0]
        self.local: int = self._listener.getsockname()[1]

    def __enter__(self) -> Forwarder:
        self._relay = Relay(MOST)
        self._relay.listen(self._listener, partial(DialledWay, self._connect), self._say, MOST)
        return self

    def __exit__(self, *_: object) -> None:
        self._relay.close()


def _listen(address: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise CommandError(why=f"{address} is no address of this machine: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        why = f"cannot listen on {address}:{port}: {(error.strerror or str(error)).lower()}"
        raise CommandError(why=why, hint="choose another local port; 0:PORT takes any") from error
    return listener
