"""How the kernels of every session are connected, and which ports of their nodes they hold. Pure.

A session's containers on one node share a bridge of their own. Those on several nodes share an overlay where
the nodes can have one together, else they use their nodes' own network, on ports that no other session holds
there. Native processes are always on it: replicas of services, of which several may be on one node, are given
ports there, too. What is decided is part of the placement: it is recorded, stands on the kernels' labels, and
is what the next plan counts as taken. A session that goes on in its generation keeps what it has.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from planner.model.types import (
    KernelPlacement,
    NodeInfo,
    Outcome,
    Placement,
    PortGrant,
    Reason,
    Snapshot,
    Wait,
)
from providers.base import Capabilities
from reconciler.plan.decide.decision import Decision
from reconciler.values.state import Actual, Desired
from schemas.kinds.cluster import Cluster
from schemas.kinds.parts.docker_network import NetworkRules
from schemas.kinds.session import Session, SessionPort
from schemas.values.envelope import SERVICE_LABEL
from schemas.values.resource_ref import identity_of

SSH_PORT = 2200
"""Where the SSH server of a container listens that has an address of its own: no privilege is needed, and an
image's own server keeps port 22."""
SSH, MASTER = "ssh", "master"
_LOWEST = 1024

Mode = Literal["default", "host", "bridge", "overlay", "pods"]


@dataclass(frozen=True, slots=True)
class ConnectedPlacement:
    """A placement with its network, and what a person should know about how it came to be."""

    placement: Placement
    note: str = ""


def connect_sessions(
    desired: Desired,
    actual: Actual,
    nodes: Mapping[str, NodeInfo],
    found: Mapping[str, Decision],
    placements: Mapping[str, Placement],
) -> dict[str, ConnectedPlacement]:
    """Every session that starts or goes on in this plan, by identity. Ports are given in the order of
    identities, so that equal inputs give equal ports.

    `placements`: where each session is to be; the others keep what they hold.
    """
    rules = network_rules(desired)
    only_replicas = rules is None and _runs_processes(desired)
    if rules is None and not only_replicas:
        return {}
    rules = rules or NetworkRules()
    taken = _taken_ports(actual)
    made = {}
    for identity in sorted(placements):
        decision = found[identity]
        if decision.session is None or (only_replicas and not _is_replica(decision.session)):
            continue
        before = _recorded_connection(decision, placements[identity])
        if before is not None:
            made[identity] = ConnectedPlacement(_keep_connection(placements[identity], before))
            continue
        mode, note = _choose(desired, rules, placements[identity], actual.capabilities, nodes)
        scope = f"{desired.repo}/{desired.cluster}/{identity}"
        placement = _assign_ports(decision.session, placements[identity], mode, rules.ports, taken, scope)
        made[identity] = ConnectedPlacement(placement, note)
    return made


def network_rules(desired: Desired) -> NetworkRules | None:
    """What the cluster says about networks; None for a provider whose kernels have none of their own."""
    cluster = _cluster(desired)
    if cluster is None:
        return None
    return {"docker": cluster.spec.docker, "kubernetes": NetworkRules()}.get(cluster.spec.provider)


def _runs_processes(desired: Desired) -> bool:
    cluster = _cluster(desired)
    return cluster is not None and cluster.spec.provider == "process"


def _is_replica(session: Session) -> bool:
    return SERVICE_LABEL in session.metadata.labels


def _cluster(desired: Desired) -> Cluster | None:
    found = desired.resources.get(identity_of("Cluster", desired.cluster))
    return found if isinstance(found, Cluster) else None


def _choose(
    desired: Desired,
    rules: NetworkRules,
    placement: Placement,
    capabilities: Capabilities | None,
    nodes: Mapping[str, NodeInfo],
) -> tuple[Mode, str]:
    """Every pod reaches every other one: that is what Kubernetes demands of a cluster's network."""
    if _runs_processes(desired):
        return "host", ""
    cluster = _cluster(desired)
    if cluster is not None and cluster.spec.provider == "kubernetes":
        return "pods", ""
    return choose_network(placement, rules, capabilities, nodes, rdma=_has_rdma_fabric(desired))


def _recorded_connection(decision: Decision, placement: Placement) -> Placement | None:
    """What was decided for this very generation on these nodes."""
    record = decision.existing.recorded if decision.existing else None
    if record is None or record.placement is None or record.generation != decision.generation:
        return None
    same = [(part.kernel, part.node) for part in record.placement.kernels] == [
        (part.kernel, part.node) for part in placement.kernels
    ]
    return record.placement if record.kernels and same else None


def _keep_connection(placement: Placement, before: Placement) -> Placement:
    old = {part.kernel: part for part in before.kernels}
    parts = (
        replace(part, network=old[part.kernel].network, ports=old[part.kernel].ports)
        if part.kernel in old
        else part
        for part in placement.kernels
    )
    return replace(placement, kernels=tuple(parts))


def choose_network(
    placement: Placement,
    rules: NetworkRules,
    capabilities: Capabilities | None,
    nodes: Mapping[str, NodeInfo],
    *,
    rdma: bool = False,
) -> tuple[Mode, str]:
    """The network of a session in this place, and why it is not what one would expect. `rdma`: the cluster
    says that its GPUs reach each other by RDMA."""
    used = sorted({part.node for part in placement.kernels})
    if len(placement.kernels) == 1:
        return "default", ""
    if len(used) == 1:
        return "bridge", ""
    if rules.network == "host":
        return "host", ""
    parts = placement.kernels
    if rules.network == "auto" and any(_uses_rdma(part, nodes) or (rdma and part.devices) for part in parts):
        return "host", ""  # RDMA's connections are made from addresses of the node's own interfaces
    why = overlay_obstacle(used, capabilities)
    if rules.network == "overlay":
        return "overlay", f"its containers will not find each other: {why}" if why else ""
    if not why:
        return "overlay", ""
    return "host", f"its containers use their nodes' own network: {why}" if capabilities else ""


def _has_rdma_fabric(desired: Desired) -> bool:
    cluster = _cluster(desired)
    fabric = cluster.spec.networks.fabric if cluster is not None else None
    return fabric is not None and fabric.rdma


def _uses_rdma(part: KernelPlacement, nodes: Mapping[str, NodeInfo]) -> bool:
    node = nodes.get(part.node)
    return node is not None and any(nic.rdma and nic.id in part.nics for nic in node.hardware.nics)


def overlay_obstacle(nodes: Iterable[str], capabilities: Capabilities | None) -> str:
    """Why one network cannot span these nodes; empty when it can."""
    if capabilities is None:
        return "nobody looked whether one overlay can span its nodes"
    domains: dict[str, str] = {}
    for node in nodes:
        domain = capabilities.overlays.get(node, "")
        if not domain:
            return f"{node}: {capabilities.no_overlay.get(node, 'is in no swarm')}"
        domains.setdefault(domain, node)
    if len(domains) > 1:
        first, second, *_ = domains.values()
        return f"{first} and {second} are in different swarms"
    return ""


def require_overlay(
    place: Callable[[Snapshot], Outcome], desired: Desired, actual: Actual
) -> Callable[[Snapshot], Outcome]:
    """The planner, where sessions wait that were to be on nodes which no overlay spans although the cluster
    demands one."""
    rules = network_rules(desired)
    if rules is None or rules.network != "overlay" or actual.capabilities is None:
        return place

    def place_where_spanned(snapshot: Snapshot) -> Outcome:
        outcome = place(snapshot)
        kept, waits = [], list(outcome.waits)
        for placement in outcome.placements:
            used = sorted({part.node for part in placement.kernels})
            why = overlay_obstacle(used, actual.capabilities) if len(used) > 1 else ""
            if why:
                reasons = (Reason("no-overlay", f"the cluster demands an overlay network: {why}"),)
                waits.append(Wait(placement.session, placement.group, 1, reasons))
            else:
                kept.append(placement)
        here = {placement.session for placement in kept}
        evictions = tuple(one for one in outcome.evictions if one.by in here)
        return replace(outcome, placements=tuple(kept), waits=tuple(waits), evictions=evictions)

    return place_where_spanned


# Ports


def _taken_ports(actual: Actual) -> dict[str, set[int]]:
    """Node → ports that anybody holds or is about to give up: nothing waits for a port to become free."""
    taken: dict[str, set[int]] = {}
    placements = (each.recorded.placement for each in actual.existing.values())
    parts = [part for placement in placements if placement for part in placement.kernels]
    for part in [*parts, *(hold.placement for hold in actual.holds)]:
        taken.setdefault(part.node, set()).update(port.on for port in part.ports)
    return taken


def _assign_ports(
    session: Session,
    placement: Placement,
    mode: Mode,
    span: tuple[int, int],
    taken: dict[str, set[int]],
    scope: str,
) -> Placement:
    """The placement with its network and ports, which are then taken."""
    parts = []
    for rank, part in enumerate(placement.kernels):
        held = taken.setdefault(part.node, set())
        ports = []
        for name, port, udp in _needed_ports(
            session, mode, first=rank == 0, alone=len(placement.kernels) == 1
        ):
            on = port if port >= _LOWEST and port not in held | {SSH_PORT} else 0
            on = on or _free_port(held, span, f"{scope}/{part.kernel}/{name}")
            held.add(on)
            ports.append(PortGrant(name, port or on, on, udp))
        parts.append(replace(part, network=mode, ports=tuple(ports)))
    return replace(placement, kernels=tuple(parts))


def _needed_ports(
    session: Session, mode: Mode, *, first: bool, alone: bool
) -> Iterable[tuple[str, int, bool]]:
    """Name, number and protocol of each port of the node that one kernel needs.

    On the node's own network that is every port it serves; elsewhere only what is published, of the main
    container.
    """
    named: Iterable[SessionPort] = session.spec.ports
    if mode != "host":
        named = [port for port in named if port.publish and first]
    for port in named:
        yield port.name, port.port, port.protocol == "udp"
    if mode == "host" and not alone:
        yield SSH, 0, False
        if first:
            yield MASTER, 0, False


def _free_port(held: set[int], span: tuple[int, int], scope: str) -> int:
    """The first free port from one that follows from `scope`; the last of all that are tried where none is
    free, which the node itself then refuses."""
    lowest, highest = span
    count = highest - lowest + 1
    start = zlib.crc32(scope.encode()) % count
    numbers = (lowest + (start + step) % count for step in range(count))
    return next((number for number in numbers if number not in held), lowest + start)
