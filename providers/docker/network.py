"""Networks that sessions have to themselves: made with their first container, removed with their last.

A bridge belongs to one engine. An overlay belongs to a Docker Swarm: it is made by a manager, and the other
engines of the swarm learn of it when a container on them wants it. Which network a container is to have
stands in its spec; here it is only made, by whoever comes first. Networks carry the name of their session's
generation, so that any container of it, seen or gone, leads to them; what a killed apply left behind goes
when the next network is made.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from providers.base import KernelSpec, Network
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import EngineRefusal, quote_segment
from providers.docker.swarm import Swarms
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError

SCOPE = "bai.scope"
"""The label that marks a network as a session's, with what all ids of its containers end in."""
_ID = re.compile(r"-[0-9a-f]+-g[0-9]+\Z")
_RELEASE_PATIENCE = 2.0
"""Seconds for which a network may seem to be in use by a container that has just gone."""
_PRUNE_AGE = "10m"
"""How old an unused network is before it counts as left behind: a container may be on its way to it."""


class SessionNetworks:
    """The networks of sessions on these engines. May be used by several threads."""

    def __init__(self, engines: Mapping[str, Engine], swarms: Swarms) -> None:
        self._engines = engines
        self._swarms = swarms
        self._lock = threading.Lock()
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._swept: set[str] = set()

    def prepare(self, spec: KernelSpec) -> KernelSpec:
        """The spec with addresses for host names; the network that it wants is there afterwards. Raises
        ProviderError."""
        engine = self._engines[spec.labels.node]
        self._ensure_network(spec, engine)
        hosts = resolve_hosts(spec.network, _resolver(engine, spec.id))
        return replace(spec, network=replace(spec.network, hosts=hosts))

    def _ensure_network(self, spec: KernelSpec, engine: Engine) -> None:
        network = spec.network
        if network.mode == "bridge":
            self._create_network(engine, spec, "bridge")
        elif network.mode == "overlay":
            self._create_network(self._swarm_manager(spec), spec, "overlay")

    def release(self, kernel_id: str, nodes: tuple[str, ...]) -> None:
        """Remove the network of a kernel that is gone from these nodes, unless others still use it.

        Raises ProviderError when the kernel's own node does not answer; what stays elsewhere is swept another
        time.
        """
        scope = scope_of(kernel_id)
        if not scope:
            return
        for node in dict.fromkeys((*nodes, *self._swarms.managers())):
            try:
                with engine_errors(node):
                    for found in _list_labelled(self._engines[node], f"{SCOPE}={scope}"):
                        _remove_network(self._engines[node], found["Id"])
            except ProviderError:
                if (node,) == nodes:
                    raise

    def _swarm_manager(self, spec: KernelSpec) -> Engine:
        node = self._swarms.manager_of(spec.labels.node)
        if node is None:
            why = f"node {spec.labels.node}: {self._swarms.why_not(spec.labels.node)}"
            raise KernelRefused(provider=NAME, kernel=spec.id, why=f"there can be no overlay network: {why}")
        return self._engines[node]

    def _create_network(self, engine: Engine, spec: KernelSpec, driver: str) -> None:
        with (
            self._lock_name(engine.node, spec.network.name),
            engine_errors(engine.node, spec.id, making=True),
        ):
            if engine.node not in self._swept:
                _prune_abandoned(engine)
                self._swept.add(engine.node)
            if not _exists(engine, spec.network.name):
                with _accept_existing():
                    engine.call("POST", "/networks/create", body=network_payload(spec, driver), timeout=60)

    @contextlib.contextmanager
    def _lock_name(self, node: str, name: str) -> Iterator[None]:
        """Engines let two bridges of one name be made at the same time."""
        with self._lock:
            lock = self._locks.setdefault((node, name), threading.Lock())
        with lock:
            yield


def scope_of(kernel_id: str) -> str:
    """`<hash>-g<generation>`: what all kernels of a session's generation end in; empty for other ids."""
    found = _ID.search(kernel_id)
    return found[0][1:] if found else ""


def network_payload(spec: KernelSpec, driver: str) -> dict[str, Any]:
    """The body of `POST /networks/create`. Pure."""
    labels = {
        SCOPE: scope_of(spec.id),
        "bai.repo": spec.labels.repo,
        "bai.cluster": spec.labels.cluster,
        "bai.resource": spec.labels.resource,
        "bai.generation": str(spec.labels.generation),
    }
    return {
        "Name": spec.network.name,
        "Driver": driver,
        "CheckDuplicate": True,
        "Labels": labels,
        **({"Attachable": True} if driver == "overlay" else {}),
    }


def resolve_hosts(network: Network, resolve: Callable[[str], str]) -> dict[str, str]:
    """Host name → IP address: engines write nothing else into a container's hosts. `resolve`: a name that is
    no address, as the node resolves it."""
    return {name: host if _is_address(host) else resolve(host) for name, host in network.hosts.items()}


def _resolver(engine: Engine, kernel_id: str) -> Callable[[str], str]:
    """Names as this node resolves them. Raises KernelRefused for one that it does not know."""

    def resolve(host: str) -> str:
        done = engine.machine.run(["getent", "ahostsv4", host], timeout=20)
        words = done.out.decode(errors="replace").split()
        if done.code or not words:
            why = f"node {engine.node} does not know the address of {host}"
            raise KernelRefused(provider=NAME, kernel=kernel_id, why=why)
        return words[0]

    return resolve


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _exists(engine: Engine, name: str) -> bool:
    found = engine.call("GET", "/networks", query={"filters": {"name": [f"^{re.escape(name)}$"]}})
    return any(each["Name"] == name for each in found)


def _list_labelled(engine: Engine, label: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.call("GET", "/networks", query={"filters": {"label": [label]}})
    return found


@contextlib.contextmanager
def _accept_existing() -> Iterator[None]:
    try:
        yield
    except EngineRefusal as refusal:
        if refusal.status != 409:
            raise EngineRefusal(refusal.status, _explain(refusal.why)) from None


def _explain(why: str) -> str:
    if "non-overlapping" in why or "address pool" in why:
        return f"{why}; give the daemon more or smaller default-address-pools, or end sessions there"
    return why


def _remove_network(engine: Engine, network: str) -> None:
    """Engines refuse while a container uses it, on whatever node; and for a moment after the last one has
    gone."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, EngineRefusal) and error.status != 404),
        stop=stop_after_delay(_RELEASE_PATIENCE),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    with contextlib.suppress(EngineRefusal):
        retrying(engine.call, "DELETE", f"/networks/{quote_segment(network)}", timeout=60)


def _prune_abandoned(engine: Engine) -> None:
    """Networks of sessions that nobody uses, for some time."""
    filters = {"label": [SCOPE], "until": [_PRUNE_AGE]}
    with contextlib.suppress(EngineRefusal):
        engine.call("POST", "/networks/prune", query={"filters": filters}, timeout=60)
