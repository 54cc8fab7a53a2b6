"""Nodes by name, each over one connection, however many parts of bai talk to it.

Connections are shared by the whole process, and kept. The ones that were not used for longest are closed when
there are more than `LIMIT`, or than this process may have files open; who asks again is connected again.
"""

from __future__ import annotations

import atexit
import contextlib
import resource
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from providers.machines.local import LocalMachine

if TYPE_CHECKING:
    from providers.machines.base import Endpoint, Machine

LIMIT = 2048
"""Most connections that are kept open, where nothing else is said: each costs a thread and a file descriptor,
and a login anew costs more than keeping it."""
FILES = 2
"""Descriptors of one connection at most, where no command runs."""
OTHER_FILES = 512
"""Descriptors that are left for all else."""


class ConnectionPool:
    """Machines by where they are. May be used by several threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        """Most connections that are kept open."""
        self._machines: dict[str, Machine] = {}
        self._lock = threading.Lock()

    def get(self, endpoint: Endpoint) -> Machine:
        """The machine; nothing is connected before it is first asked for something."""
        if endpoint.local:
            return LocalMachine(endpoint.name)
        key = f"{endpoint.name} {endpoint.address} {endpoint.ssh.model_dump_json()}"
        with self._lock:
            return self._machines.get(key) or self._add(key, endpoint)

    def _add(self, key: str, endpoint: Endpoint) -> Machine:
        from providers.machines.ssh.machine import SshMachine

        machine = self._machines[key] = SshMachine(endpoint, on_connect=self._trim)
        return machine

    def _trim(self) -> None:
        """Called by a machine that has just connected: others, unused for longest, make room."""
        from providers.machines.ssh.machine import SshMachine

        with self._lock:
            machines = [each for each in self._machines.values() if isinstance(each, SshMachine)]
        connected = sorted(
            (each.ssh_connection for each in machines if each.ssh_connection.connected),
            key=lambda kept: kept.used,
        )
        more = len(connected) - min(self.limit, _most_for_files(len(connected)))
        for each in connected:
            if more <= 0:
                return
            more -= each.close(if_idle=True)

    def close(self) -> None:
        """Close all connections; they come back when they are needed."""
        with self._lock:
            machines, self._machines = list(self._machines.values()), {}
        for machine in machines:
            machine.close()


def _most_for_files(connected: int) -> int:
    """How many connections the process's limit of open files leaves room for; its soft limit is raised where
    these need more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES * connected + OTHER_FILES
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return connected
    most = 2 * wanted if hard == resource.RLIM_INFINITY else min(2 * wanted, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return max(1, (soft - OTHER_FILES) // FILES)


_SHARED = ConnectionPool()


def connection_limit() -> int:
    """Most connections to nodes that this process keeps open."""
    return _SHARED.limit


def set_connection_limit(most: int) -> None:
    """Keep no more connections than so many, from the next login on."""
    _SHARED.limit = most


def close_connections() -> None:
    """Close the process's connections, and forget what failed; whoever asks for a node connects anew."""
    _SHARED.close()


atexit.register(close_connections)


def connect(endpoint: Endpoint) -> Machine:
    """The node at this endpoint, over the process's one connection to it."""
    return _SHARED.get(endpoint)


class ClusterMachines:
    """The nodes of one cluster by name."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}

    def get(self, name: str) -> Machine:
        """Raises KeyError for a node that is not there."""
        return connect(self._endpoints[name])

    def close(self) -> None:
        """Close the connections to these nodes; they come back when they are needed."""
        for endpoint in self._endpoints.values():
            connect(endpoint).close()
