"""Ports for servers that tests start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST, _ABOVE = 10_000, 20_000
_HELD: list[IO[bytes]] = []
"""Locks of the ports that this process was given, until it ends."""


def free_port() -> int:
    """A port at which nobody listens, at any address, and that no other process of tests is given meanwhile.

    It is none of those that connections take for their own end (`ip_local_port_range`): one that was free a
    moment ago may be the end of a connection when the server starts. Nor is it one of those that bai chooses
    for sessions that share a machine's network (from 20,000 on): these find out when they start.
    """
    highest = min(int(_EPHEMERAL.read_text().split()[0]), _ABOVE)
    folder = Path(tempfile.gettempdir()) / f"bai-ports-{os.geteuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.sample(range(_LOWEST, highest), highest - _LOWEST):
        lock = (folder / str(port)).open("wb")
        with contextlib.suppress(OSError), socket.socket() as probe:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            probe.bind(("", port))
            _HELD.append(lock)
            return port
        lock.close()
    raise OSError(f"no port from {_LOWEST} to {highest} is free")
