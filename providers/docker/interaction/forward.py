"""Ports of containers, from the node that they are on.

On the node's own network a port is the node's. Otherwise the node connects to the container's address: on a
bridge, or for an overlay on the engine's gateway bridge. Where the node has no way there (an engine without
root, or in a network namespace of its own), or the program listens on its loopback only, a small command in
the container relays.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import EngineRefusal
from providers.docker.interaction.relay import relay
from providers.machines.base import Machine, Stream
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import NotRunning, PortRefused

GATEWAY_BRIDGE = "docker_gwbridge"
PLACEMENT = "bai.placement"
ROUTES = """
parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
echo "$(readlink /proc/self/ns/net) $(readlink "/proc/$parent/ns/net" 2>/dev/null)"
cat /proc/net/fib_trie
"""
"""Tells the node's network namespace and that of a container's keeper, and all addresses of the node."""


@dataclass(frozen=True, slots=True)
class PortLocation:
    """Where a container's ports are, seen from its node.

    `host`: its network is the node's own, and `ports` leads from the document's port to the node's.
    `addresses`: its own, as far as the node reaches them.
    """

    host: bool
    addresses: tuple[str, ...]
    ports: Mapping[int, int]


@dataclass(eq=False, slots=True)
class _Lookup:
    """Of one start of a container; `lock`: whoever holds it asks the node."""

    run: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    place: PortLocation | None = None


class PortDialer:
    """Connects to ports; remembers where containers are. May be used by several threads."""

    def __init__(self) -> None:
        self._lookups: dict[str, _Lookup] = {}
        self._lock = threading.Lock()

    def dial(self, engine: Engine, kernel: str, port: int, found: Mapping[str, Any]) -> Stream:
        """`found`: its container, as inspected just now. Raises NotRunning, PortRefused, ProviderError."""
        with engine_errors(engine.node, kernel):
            if not found["State"]["Running"]:
                raise NotRunning(provider=NAME, kernel=kernel)
            place = self._locate(engine, kernel, found)
        if place.host:
            return _connect_port(engine, kernel, "127.0.0.1", place.ports.get(port, port), port)
        for address in place.addresses:
            try:
                return _connect_port(engine, kernel, address, port, port)
            except PortRefused:
                continue
        return relay(engine, kernel, port)

    def _locate(self, engine: Engine, kernel: str, found: Mapping[str, Any]) -> PortLocation:
        """All who come at a time wait for one who asks the node: that takes as long as a login, and a node
        that each request asked would be slow for all of them."""
        run = f"{found['Id']} {found['State']['StartedAt']}"
        with self._lock:
            lookup = self._lookups.get(kernel)
            if lookup is None or lookup.run != run:
                lookup = self._lookups[kernel] = _Lookup(run)
        with lookup.lock:
            if lookup.place is None:
                lookup.place = _place_of(engine, found)
            return lookup.place


def _place_of(engine: Engine, found: Mapping[str, Any]) -> PortLocation:
    host = found["HostConfig"].get("NetworkMode") == "host"
    addresses = () if host else tuple(_reachable_addresses(engine, found))
    return PortLocation(host, addresses, _assigned_ports(found["Config"].get("Labels") or {}))


def _connect_port(engine: Engine, kernel: str, address: str, at: int, port: int) -> Stream:
    try:
        stream = engine.machine.dial((address, at))
        stream.settimeout(None)
        return stream
    except (BaiError, OSError) as error:
        why = error.fields.get("why", error.message) if isinstance(error, BaiError) else str(error)
        raise PortRefused(provider=NAME, kernel=kernel, port=port, why=str(why)) from error


def _assigned_ports(labels: Mapping[str, str]) -> dict[int, int]:
    """The ports that the plan assigned on the node's own network."""
    try:
        ports = json.loads(labels.get(PLACEMENT) or "{}").get("ports") or ()
        return {int(port["port"]): int(port["on"]) for port in ports}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _reachable_addresses(engine: Engine, found: Mapping[str, Any]) -> Iterator[str]:
    """The container's addresses on networks that the node itself is on."""
    local = _local_addresses(engine.machine, int(found["State"]["Pid"]))
    if not local:
        return
    for network in (found["NetworkSettings"].get("Networks") or {}).values():
        if network.get("IPAddress") and network.get("Gateway") in local:
            yield network["IPAddress"]
    yield from _gateway_address(engine, found, local)


def _local_addresses(machine: Machine, pid: int) -> frozenset[str]:
    """The node's own addresses; none when its containers hang in another network namespace than we do."""
    try:
        done = machine.run(["sh", "-c", ROUTES, "sh", str(pid)], timeout=20)
    except BaiError:
        return frozenset()
    lines = done.out.decode(errors="replace").splitlines()
    spaces = lines[0].split() if lines else []
    if len(spaces) == 2 and spaces[0] != spaces[1]:
        return frozenset()
    return frozenset(local_addresses(lines[1:]))


def local_addresses(lines: list[str]) -> Iterator[str]:
    """Of the routing table as the kernel prints it: the addresses that are this machine's."""
    for address, kind in pairwise(lines):
        if "|--" in address and kind.split() == ["/32", "host", "LOCAL"]:
            yield address.split("|--")[1].strip()


def _gateway_address(engine: Engine, found: Mapping[str, Any], local: frozenset[str]) -> Iterator[str]:
    """A container on an overlay also hangs on the engine's gateway bridge, on which the node reaches it."""
    try:
        network = engine.call("GET", f"/networks/{GATEWAY_BRIDGE}")
    except EngineRefusal:
        return
    gateways = {each.get("Gateway", "").partition("/")[0] for each in network["IPAM"].get("Config") or ()}
    member = (network.get("Containers") or {}).get(found["Id"]) or {}
    if member.get("IPv4Address") and gateways & local:
        yield member["IPv4Address"].partition("/")[0]
