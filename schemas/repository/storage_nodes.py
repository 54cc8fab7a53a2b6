"""Which nodes have a storage host's data, and which of them looks after it."""

from __future__ import annotations

from schemas.kinds.node import Node
from schemas.kinds.session import Session
from schemas.kinds.storage import StorageHost
from schemas.repository.repository import Repository

LOCAL_ADDRESSES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Addresses of the machine that runs bai."""


def is_this_machine(node: Node) -> bool:
    """Whether a node is this very machine."""
    return (node.spec.address or node.name) in LOCAL_ADDRESSES


def nodes_with_host(repository: Repository, host: StorageHost) -> tuple[str, ...] | None:
    """Names of the nodes whose disk a `local` host is; None for what is mounted everywhere.

    Empty when that is not said: the loader refuses it.
    """
    if host.spec.type != "local":
        return None
    nodes = _cluster_nodes(repository, host)
    if host.spec.node:
        address = next((n.spec.address or n.name for n in nodes if n.name == host.spec.node), host.spec.node)
        same = tuple(n.name for n in nodes if (n.spec.address or n.name) == address)
        return same or (host.spec.node,)
    here = tuple(node.name for node in nodes if is_this_machine(node))
    return here or (tuple(node.name for node in nodes) if len(nodes) == 1 else ())


def administering_node(repository: Repository, host: StorageHost) -> str:
    """The node on which folders are made, limited and moved; empty when there is none."""
    if host.spec.node:
        return host.spec.node
    there = nodes_with_host(repository, host)
    nodes = [node for node in _cluster_nodes(repository, host) if there is None or node.name in there]
    best = sorted(nodes, key=lambda node: (node.spec.state != "active", not is_this_machine(node), node.name))
    return best[0].name if best else ""


def nodes_with_volumes(repository: Repository, session: Session) -> frozenset[str] | None:
    """The nodes on which a session finds all of its volumes; None: on any."""
    found: frozenset[str] | None = None
    for mount in session.spec.mounts:
        volume = repository.volume_of(session, mount.volume)
        host = repository.host_of(volume) if volume else None
        there = nodes_with_host(repository, host) if host else None
        if there:
            found = frozenset(there) if found is None else found & frozenset(there)
    return found


def _cluster_nodes(repository: Repository, host: StorageHost) -> tuple[Node, ...]:
    return repository.nodes_of(repository.cluster_of(host) or "")
