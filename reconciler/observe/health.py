"""The health of nodes, asked at most once a minute: of those that are provisioned to a profile, and of those
whose GPUs were probed. A plan for other nodes asks nobody.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from providers.health.values import ExpectedGpu, ExpectedNode, NodeHealth
from reconciler.provisioning.reasons import unready_reason
from reconciler.values.unfit_gpus import unfit_gpu_names

if TYPE_CHECKING:
    from providers.abilities import ReportsHealth
    from providers.machines.base import Endpoint
    from reconciler.values.state import Actual, Desired
    from schemas.hardware.model import Hardware
    from schemas.kinds.cluster import Cluster
    from schemas.kinds.node import Node
    from schemas.profile import NodeProfile
    from schemas.repository.repository import Repository

HEALTH_TTL = 60.0
"""Seconds for which an answer counts as of now."""
_cache: dict[str, tuple[float, NodeHealth]] = {}
_lock = threading.Lock()


def add_reported_health(actual: Actual, desired: Desired, provider: ReportsHealth) -> Actual:
    """What is known of the nodes, with the health that their provider tells."""
    names = {node.name for node in desired.nodes} - actual.missed.keys()
    return dataclasses.replace(actual, health=provider.health(names))


def add_health(
    actual: Actual, desired: Desired, cluster: Cluster, endpoints: Iterable[Endpoint], now: float
) -> Actual:
    """What is known of the nodes, with their health; the same where nobody is to be asked."""
    names = {node.name for node in desired.nodes if _is_checked(node, actual, desired.repository)}
    names -= actual.missed.keys()
    if not names or cluster.spec.provider not in ("process", "docker"):
        return actual
    health = check_health(names, desired, cluster, endpoints, actual.hardware, now)
    return dataclasses.replace(actual, health=health)


def _is_checked(node: Node, actual: Actual, repository: Repository) -> bool:
    if repository.profile_of(node) is not None:
        return not unready_reason(actual.provision_status, actual.provision_records, node.name)
    probed = actual.hardware.get(node.name)
    declared = node.spec.hardware is not None
    return not declared and probed is not None and any(gpu.slot == "cuda" for gpu in probed.gpus)


def check_health(
    names: Collection[str],
    desired: Desired,
    cluster: Cluster,
    endpoints: Iterable[Endpoint],
    hardware: Mapping[str, Hardware],
    now: float,
    *,
    fresh: float = HEALTH_TTL,
) -> dict[str, NodeHealth]:
    """The health of these nodes, asked where the last answer is older than `fresh` seconds. Never raises."""
    wanted = {each.name: each for each in _with_local(endpoints, cluster) if each.name in names}
    nodes = {node.name: node for node in desired.nodes}
    expected = {
        name: expected_health(
            nodes[name].spec.hardware or hardware.get(name),
            desired.repository.profile_of(nodes[name]),
            cluster.spec.provider,
        )
        for name in wanted
    }
    return _ask_stale(wanted, expected, now, fresh)


def _ask_stale(
    wanted: Mapping[str, Endpoint], expected: Mapping[str, ExpectedNode], now: float, fresh: float
) -> dict[str, NodeHealth]:
    from providers.health.query import query_health
    from providers.machines.connections import connect

    keys = {name: _cache_key(each) for name, each in wanted.items()}
    with _lock:
        known = {name: _cache[key] for name, key in keys.items() if key in _cache}
    old = {
        name
        for name in wanted
        if name not in known
        # Of the future is what was seen before the clock was set back.
        or not 0 <= now - known[name][0] < fresh
        or known[name][1].expected != expected[name]
    }
    machines = {name: partial(connect, wanted[name]) for name in sorted(old)}
    answers = query_health(machines, expected) if machines else {}
    for name, health in answers.items():
        if health.problem and name in known:  # a driver that hangs hides what was wrong before
            answers[name] = dataclasses.replace(known[name][1], problem=health.problem)
    with _lock:
        _cache.update({keys[name]: (now, health) for name, health in answers.items()})
    return {name: answers[name] if name in answers else known[name][1] for name in sorted(wanted)}


def last_known_health(endpoints: Iterable[Endpoint], cluster: Cluster) -> dict[str, NodeHealth]:
    """What is remembered of these nodes, however old; nobody is asked."""
    with _lock:
        return {
            each.name: _cache[key][1]
            for each in _with_local(endpoints, cluster)
            if (key := _cache_key(each)) in _cache
        }


def _with_local(endpoints: Iterable[Endpoint], cluster: Cluster) -> list[Endpoint]:
    """Native processes run on this machine, whatever their nodes are called."""
    native = cluster.spec.provider == "process"
    return [dataclasses.replace(each, local=each.local or native) for each in endpoints]


def _cache_key(endpoint: Endpoint) -> str:
    return f"{endpoint.name} {endpoint.address} {endpoint.local}"


def forget_health(node: str = "") -> None:
    """Ask this node, or everybody, again the next time: something was done to it."""
    with _lock:
        for key in [key for key in _cache if not node or key.startswith(f"{node} ")]:
            del _cache[key]


class HealthWatch:
    """Tells of GPUs that are back; that they are gone is a warning of the plan."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._unfit: frozenset[str] = frozenset()

    def update(self, health: Mapping[str, NodeHealth]) -> None:
        unfit = unfit_gpu_names(health)
        for name in sorted(self._unfit - unfit):
            self._log(f"{name} is in placement again")
        self._unfit = unfit


def expected_health(hardware: Hardware | None, profile: NodeProfile | None, provider: str) -> ExpectedNode:
    """What a node's records and profile say of it."""
    spec = profile.spec if profile is not None else None
    mounts = spec.storage_client.mounts if spec is not None and spec.storage_client is not None else ()
    driver = spec.nvidia_driver if spec is not None else None
    return ExpectedNode(
        gpus=_gpus(hardware) if hardware is not None else (),
        switches=hardware.nv_switches if hardware is not None else 0,
        ports={nic.id: nic.speed_mbps for nic in hardware.nics if nic.speed_mbps} if hardware else {},
        engine="docker" if provider == "docker" else "",
        cdi=spec is not None and spec.nvidia_container_toolkit is not None,
        driver=driver is not None,
        persistence=driver.persistence if driver is not None else True,
        mounts=tuple(mount.path for mount in mounts if mount.state == "mounted"),
    )


def _gpus(hardware: Hardware) -> tuple[ExpectedGpu, ...]:
    return tuple(
        ExpectedGpu(
            id=gpu.id,
            index=gpu.index,
            pci=gpu.pci or "",
            links=_links(gpu.id, hardware),
            instances=tuple(instance.id for instance in gpu.mig_devices),
        )
        for gpu in hardware.gpus
        if gpu.slot == "cuda"
    )


def _links(gpu: str, hardware: Hardware) -> int:
    """NVLinks of a GPU: behind NVSwitches each pair shares all of them, else every pair has its own."""
    counts = [link.count for link in hardware.links if link.kind == "NV" and gpu in (link.a, link.b)]
    return max(counts, default=0) if hardware.nv_switches else sum(counts)
