"""Who looks after the folders of a cluster's volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.observe.endpoints import endpoints
from schemas.kinds.cluster import Cluster
from schemas.repository.repository import Repository

if TYPE_CHECKING:
    from providers.machines.base import Machine
    from providers.storage.base import Storage


def has_folders(cluster: Cluster) -> bool:
    """Whether a cluster's volumes are folders of its nodes."""
    return cluster.spec.provider in ("process", "docker")


def open_storage(repository: Repository, cluster: Cluster, secret: Callable[[str], str]) -> Storage | None:
    """None where the nodes' files are not bai's to make. Nothing is connected to before it is needed."""
    if not has_folders(cluster):
        return None
    from providers.storage.nodes import NodeStorage

    nodes = endpoints(repository.nodes_of(cluster.name), cluster.spec, secret)
    # Native processes run on this machine, whatever their nodes are called.
    far = [node for node in nodes if not node.local and cluster.spec.provider != "process"]
    if not far:
        return NodeStorage(lambda name: None)
    from providers.machines.connections import ClusterMachines

    machines = ClusterMachines(far)
    names = {node.name for node in far}

    def machine(name: str) -> Machine | None:
        return machines.get(name) if name in names else None

    return NodeStorage(machine)
