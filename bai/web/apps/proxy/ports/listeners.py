"""Listening sockets at many ports of one address, each held for as long as it is wanted."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Mapping

_BACKLOG = 2048


def new_listener(host: str, number: int) -> socket.socket:
    """Raises OSError where nothing can listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.create_server((host, number), family=family, backlog=_BACKLOG)
    # Connections inherit it. An answer's head and body are two writes: without it the second one waits until
    # the first one was acknowledged, which the other side puts off for 40 ms.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Who is gone without a word is noticed also where there is nothing to say: in two hours by default.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
    return found


class PortOpener:
    """Ports of `host`. One that cannot be had is said once, keeps no other from being had, and may be asked
    for again. `failures`: port to why."""

    def __init__(self, host: str, say: Callable[[str], None]) -> None:
        self._host, self._say = host, say
        self.failures: dict[int, str] = {}

    def open(self, number: int) -> socket.socket | None:
        try:
            found = new_listener(self._host, number)
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            if self.failures.get(number) != why:
                self._say(f"port {number} cannot be had, and is tried again: {why}")
            self.failures[number] = why
            return None
        if self.failures.pop(number, ""):
            self._say(f"port {number} can be had now")
        return found

    def forget_others(self, wanted: Collection[int]) -> None:
        """Only these are asked for again."""
        for number in [each for each in self.failures if each not in wanted]:
            del self.failures[number]


class HeldPorts:
    """Those that are held until nobody wants them."""

    def __init__(self, host: str, say: Callable[[str], None]) -> None:
        self._opener = PortOpener(host, say)
        self._held: dict[int, socket.socket] = {}

    @property
    def failures(self) -> Mapping[int, str]:
        """Port to why it cannot be had."""
        return self._opener.failures

    def hold(self, wanted: Collection[int]) -> Mapping[int, int]:
        """Port to file descriptor, of those that can be had. No other is given up yet."""
        self._opener.forget_others(wanted)
        for number in sorted(wanted):
            if number not in self._held and (found := self._opener.open(number)) is not None:
                self._held[number] = found
        return {number: self._held[number].fileno() for number in sorted(wanted) if number in self._held}

    def close_others(self, wanted: Collection[int]) -> None:
        for number in [each for each in self._held if each not in wanted]:
            self._held.pop(number).close()
