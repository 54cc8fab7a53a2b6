"""Ports for servers that tests start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST, _ABOVE = 10_000, 20_000
_HELD: list[contextlib.ExitStack] = []
"""Locks of the ports that this process was given, until it ends."""


def free_port() -> int:
    """A port at which nobody listens, at any address, and that no other process of tests is given meanwhile.

    It is none of those that connections take for their own end (`ip_local_port_range`): one that was free a
    moment ago may be the end of a connection when the server starts. Nor is it one of those that bai chooses
    for sessions that share a machine's network (from 20,000 on): these find out when they start.
    """
    return free_span(1)


def free_span(count: int) -> int:
    """The first of so many of these ports in a row."""
    above = min(int(_EPHEMERAL.read_text().split()[0]), _ABOVE)
    folder = Path(tempfile.gettempdir()) / f"bai-ports-{os.geteuid()}"
    folder.mkdir(exist_ok=True)
    candidates = range(_LOWEST, above - count + 1)
    for first in random.sample(candidates, len(candidates)):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                lock = held.enter_context((folder / str(port)).open("wb"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.socket() as probe:
                    probe.bind(("", port))
            _HELD.append(held.pop_all())
            return first
    raise OSError(f"no {count} ports in a row from {_LOWEST} to {above} are free")
