"""What a session's network means for each of its kernels: names, addresses, ports, logins. Pure."""

from __future__ import annotations

import ipaddress

from planner.environment.network_variables import NetworkFacts
from planner.model.types import KernelPlacement, Placement
from providers.base import Network, Peer, Published, SshLogin
from reconciler.plan.network.session_networks import SSH, SSH_PORT, ConnectedPlacement
from reconciler.values.state import Desired
from schemas.kinds.cluster import Cluster, Networks
from schemas.kinds.node import Node
from schemas.values.resource_ref import identity_of

_WITH_LOGIN = frozenset({"docker"})
"""Providers whose kernels can log in to each other by SSH."""
_LOCAL = ("localhost", "127.0.0.1", "::1")


def kernel_addresses(desired: Desired, placement: Placement) -> dict[str, str]:
    """Kernel → its node's address, where kernels share their nodes' network and have no names of their
    own."""
    cluster = _cluster(desired)
    host = any(part.network == "host" for part in placement.kernels) and len(placement.kernels) > 1
    if cluster is None or not (host or cluster.spec.provider == "process"):
        return {}
    nodes = {node.name: _node_address(node) for node in desired.nodes}
    return {part.kernel: nodes.get(part.node, part.node) for part in placement.kernels}


def _node_address(node: Node) -> str:
    found = node.spec.data_address or node.spec.address or node.name
    return "127.0.0.1" if found in _LOCAL else found


def network_facts(desired: Desired, placement: Placement) -> NetworkFacts:
    """What the environment says about it; nothing for a provider whose kernels have no networks."""
    mode = placement.kernels[0].network
    cluster = _cluster(desired)
    if cluster is None or not mode:
        return NetworkFacts()
    planes = cluster.spec.networks
    return NetworkFacts(
        mode=mode,
        addresses=kernel_addresses(desired, placement),
        ports={part.kernel: part.ports for part in placement.kernels},
        data=planes.data.interfaces if planes.data else (),
        cidr=planes.data.cidr or "" if planes.data else "",
        fabric=planes.fabric.interfaces if planes.fabric else (),
        login=len(placement.kernels) > 1 and cluster.spec.provider in _WITH_LOGIN,
    )


def kernel_network(desired: Desired, placement: Placement, part: KernelPlacement, name: str) -> Network:
    """Of one kernel. `name`: of the session's own network."""
    if not part.network:
        return Network()
    own = part.network in ("bridge", "overlay", "pods") and len(placement.kernels) > 1
    return Network(
        mode=part.network,
        name=name if own else "",
        aliases=(part.kernel,) if own else (),
        hosts=kernel_addresses(desired, placement) if part.network == "host" else {},
        published=()
        if part.network == "host"
        else tuple(Published(port.port, port.on, port.udp) for port in part.ports),
    )


def ssh_login(
    desired: Desired, placement: Placement, part: KernelPlacement, reference: str
) -> SshLogin | None:
    """How this kernel logs in to the others, and they to it."""
    cluster = _cluster(desired)
    if not part.network or len(placement.kernels) == 1 or cluster is None:
        return None
    if cluster.spec.provider not in _WITH_LOGIN:
        return None
    at = kernel_addresses(desired, placement)
    ports = {each.kernel: _ssh_port(each) for each in placement.kernels}
    peers = tuple(
        Peer(each.kernel, at.get(each.kernel, each.kernel), ports[each.kernel]) for each in placement.kernels
    )
    slots = {each.kernel: len(each.devices) or 1 for each in placement.kernels}
    return SshLogin(ports[part.kernel], peers, reference, slots=slots)


def _ssh_port(part: KernelPlacement) -> int:
    return next((port.on for port in part.ports if port.name == SSH), SSH_PORT)


def network_notes(desired: Desired, connected: ConnectedPlacement) -> tuple[str, ...]:
    """What a person should know before the session starts so."""
    hosts = connected.placement.kernels[0].network == "host"
    why = _address_problem(desired, connected.placement) if hosts else ""
    return tuple(note for note in (connected.note, why) if note)


def _address_problem(desired: Desired, placement: Placement) -> str:
    """Why kernels on their nodes' own network will not find each other; empty when nothing speaks against
    it."""
    if len({part.node for part in placement.kernels}) < 2:
        return ""
    cluster = _cluster(desired)
    found = {
        part.node: kernel_addresses(desired, placement).get(part.kernel, "") for part in placement.kernels
    }
    for node, address in sorted(found.items()):
        if address.startswith("127.") or address == "::1":
            return f"{node} has no address that other nodes reach: give it a dataAddress"
        if cluster is not None and _outside_data_network(address, cluster.spec.networks):
            return f"{node}'s address {address} is not on the data network: give it a dataAddress"
    return ""


def _outside_data_network(address: str, planes: Networks) -> bool:
    if planes.data is None or planes.data.cidr is None:
        return False
    try:
        return ipaddress.ip_address(address) not in ipaddress.ip_network(planes.data.cidr)
    except ValueError:
        return False  # a name: only the nodes can tell


def _cluster(desired: Desired) -> Cluster | None:
    found = desired.resources.get(identity_of("Cluster", desired.cluster))
    return found if isinstance(found, Cluster) else None
