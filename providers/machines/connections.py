"""Nodes by name, each over one connection, however many parts of bai talk to it.

Connections are shared by the whole process. The ones that were not used for longest are closed when there are
more than `LIMIT`, so that thousands of nodes can be visited; who asks again is connected again.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from providers.machines.local import LocalMachine

if TYPE_CHECKING:
    from providers.machines.base import Endpoint, Machine

LIMIT = 256
"""Most connections that are kept open; each costs a thread and two file descriptors."""


class ConnectionPool:
    """Machines by where they are. May be used by several threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
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
        for idle in connected[: max(0, len(connected) - self._limit)]:
            idle.close(if_idle=True)

    def close(self) -> None:
        """Close all connections; they come back when they are needed."""
        with self._lock:
            machines, self._machines = list(self._machines.values()), {}
        for machine in machines:
            machine.close()


_SHARED = ConnectionPool()


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
