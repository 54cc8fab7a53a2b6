"""Who looks after a cluster's volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.observe.endpoints import endpoints
from schemas.kinds.cluster import Cluster
from schemas.repository.repository import Repository

if TYPE_CHECKING:
    from providers.machines.base import Machine
    from providers.storage.base import Storage


def open_storage(repository: Repository, cluster: Cluster, secret: Callable[[str], str]) -> Storage | None:
    """None where volumes are not bai's to make. Nothing is connected to before it is needed."""
    if cluster.spec.provider == "kubernetes":
        return _open_kubernetes_storage(cluster)
    if cluster.spec.provider not in ("process", "docker"):
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


def _open_kubernetes_storage(cluster: Cluster) -> Storage:
    from providers.kubernetes.api.access import find_access
    from providers.kubernetes.api.client import ApiClient
    from providers.kubernetes.volumes.storage import KubernetesStorage

    context = cluster.spec.kubernetes.context or ""
    return KubernetesStorage(lambda: ApiClient(find_access(context)))
