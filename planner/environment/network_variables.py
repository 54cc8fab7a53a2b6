"""Variables that follow from how a session's kernels are connected: where a port is served, which interfaces
reach the other kernels, how a launcher logs in to them. Pure.

Open MPI, NCCL and Gloo try every interface they find. On a node's own network these are Docker's bridges too,
which have the same addresses on every node; in an overlay, containers have a second interface that leads
outside. Both end in connections to oneself, so that the right ones are named.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planner.model.types import PortGrant

SSH_CONFIG = "/run/bai/ssh/config"
"""Where a kernel finds how it reaches the others."""
_SPANNING = "eth0"
"""The interface on a network that spans nodes, of a session's own or of all pods; others come after it."""
_SHORTEST_PREFIX = 8
"""Shortest prefix at which addresses still count as one network."""
_BRIDGES = ("127.0.0.0/8", "172.17.0.0/16")
"""Loopback, and Docker's usual bridge."""
_EXCLUDED = "OMPI_MCA_btl_tcp_if_exclude"
_MPI = ("OMPI_MCA_btl_tcp_if_{}", "OMPI_MCA_oob_tcp_if_{}", "PRTE_MCA_oob_tcp_if_{}")


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """How the kernels of one session are connected. Without a `mode`, nothing is known and nothing said."""

    mode: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Kernel → its node's address on the data network, on the nodes' own network."""
    ports: Mapping[str, tuple[PortGrant, ...]] = field(default_factory=dict)
    """Kernel → ports of its node that it holds."""
    data: tuple[str, ...] = ()
    """Interfaces of the nodes on their data network."""
    cidr: str = ""
    """The data network."""
    fabric: tuple[str, ...] = ()
    """Interfaces of the nodes between GPUs."""
    login: bool = False
    """Whether kernels are given a key pair and what belongs to it."""

    @property
    def has_own_interfaces(self) -> bool:
        """Whether kernels have interfaces of their own, whose names are not the node's."""
        return self.mode in ("default", "bridge", "overlay", "pods")

    def listening(self, kernel: str, name: str, port: int) -> int:
        """Where a kernel serves a port of its session."""
        if self.mode != "host":
            return port
        return next((grant.on for grant in self.ports.get(kernel, ()) if grant.name == name), port)


def port_variables(facts: NetworkFacts, kernel: str, ports: Mapping[str, int]) -> dict[str, str]:
    """Port name → number; `BAI_PORT_HTTP` and so on."""
    return {
        f"BAI_PORT_{name.upper().replace('-', '_')}": str(facts.listening(kernel, name, port))
        for name, port in ports.items()
    }


def network_variables(facts: NetworkFacts, *, gpus: bool) -> dict[str, str]:
    """For a session of several kernels: which interfaces lead to the others, and how to log in there."""
    found = _launcher_variables() if facts.login else {}
    if facts.mode in ("overlay", "pods"):
        return found | _interface_variables((_SPANNING,), gpus=gpus)
    if facts.mode != "host":
        return found
    if facts.data:
        return (
            found
            | _interface_variables(facts.data, gpus=False)
            | _nccl_variables(facts.fabric or facts.data, gpus=gpus)
        )
    network = facts.cidr or _common_network(facts.addresses.values())
    mpi = {name.format("include"): network for name in _MPI} if network else {_EXCLUDED: ",".join(_BRIDGES)}
    return found | mpi | _nccl_variables(facts.fabric, gpus=gpus)


def _interface_variables(names: Iterable[str], *, gpus: bool) -> dict[str, str]:
    text = ",".join(names)
    values = {name.format("include"): text for name in _MPI}
    return (
        values | {"GLOO_SOCKET_IFNAME": text, "TP_SOCKET_IFNAME": text} | _nccl_variables((text,), gpus=gpus)
    )


def _nccl_variables(names: Iterable[str], *, gpus: bool) -> dict[str, str]:
    text = ",".join(names)
    return {"NCCL_SOCKET_IFNAME": f"={text}"} if text and gpus else {}


def _common_network(addresses: Iterable[str]) -> str:
    """The smallest IPv4 network with all these addresses, by which Open MPI finds the interface on every
    node; empty where there is none worth the name."""
    try:
        known = [ipaddress.IPv4Address(text) for text in addresses]
    except ValueError:
        return ""  # names: only the nodes know
    if not known:
        return ""
    bits = (int(min(known)) ^ int(max(known))).bit_length()
    network = ipaddress.ip_network((int(min(known)), 32 - bits), strict=False)
    return str(network) if network.prefixlen >= _SHORTEST_PREFIX else ""


def _launcher_variables() -> dict[str, str]:
    """Launchers find the session's key; mpirun does not refuse root, who is alone in a container."""
    agent = f"ssh -F {SSH_CONFIG}"
    return {
        "OMPI_MCA_plm_rsh_agent": agent,
        "PRTE_MCA_plm_ssh_agent": agent,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
