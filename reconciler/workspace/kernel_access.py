"""The store of a cluster and the way to its kernels, by the documents of the cluster and its nodes: for
commands that go to a session which is there, and rest on no other document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.store.database.address import StoreAddress
from reconciler.values.clock import Clock, SystemClock
from reconciler.workspace.store_access import StoreAccess
from schemas.values.memo import Memo

if TYPE_CHECKING:
    from providers.base import Provider
    from providers.machines.base import Endpoint
    from reconciler.secrets.reader import SecretReader
    from reconciler.sources.source import Source
    from schemas.kinds.cluster import Cluster
    from schemas.kinds.node import Node
    from schemas.values.envelope import Resource


class KernelAccess(StoreAccess):
    """Raises ProviderError, too, when the provider is first needed."""

    def __init__(
        self,
        source: Source,
        cluster: Cluster,
        nodes: tuple[Node, ...],
        secrets: SecretReader,
        state: StoreAddress,
        clock: Clock,
    ) -> None:
        """`secrets`: with which nodes are reached."""
        super().__init__(source, cluster, state, clock)
        self.nodes = nodes
        """Every machine of the cluster, by name."""
        self.secrets = secrets
        self._provider: Provider | None = None
        self._given_provider: Provider | None = None
        self._endpoints: Memo[str, tuple[Endpoint, ...]] = Memo()

    @property
    def provider(self) -> Provider:
        if self._provider is None:
            self._provider = self._given_provider or self._open_provider()
        return self._provider

    @provider.setter
    def provider(self, provider: Provider) -> None:
        """Another one than the cluster's document names, from here on."""
        self._provider = self._given_provider = provider

    def close(self) -> None:
        """A provider that was given goes on: it is who gave it that closes it."""
        self._close_provider()
        super().close()

    def _close_provider(self) -> None:
        if self._provider is not None and self._provider is not self._given_provider:
            self._provider.close()
        self._provider = None

    def _open_provider(self) -> Provider:
        from providers.registry import open_provider

        spec = self.cluster.spec
        root = Path(spec.state_root) if spec.state_root else None
        return open_provider(spec.provider, spec.provider_options, state_root=root, machines=self.endpoints())

    def endpoints(self) -> tuple[Endpoint, ...]:
        """How each node of the cluster is reached."""
        from reconciler.observe.endpoints import endpoints

        nodes, spec, secrets = self.nodes, self.cluster.spec, self.secrets
        return self._endpoints.get(
            "", (nodes, spec, secrets), lambda: endpoints(nodes, spec, secrets.for_infrastructure)
        )


def open_kernel_access(source: Source, cluster: str | None, state: str | None) -> KernelAccess | None:
    """As `open_store_access`; None also where a node's document is not clear, or a secret is needed to reach
    one: which may be had is for all documents to say."""
    from reconciler.secrets.reader import NO_SECRETS
    from schemas.kinds.cluster import Cluster
    from schemas.kinds.node import Node, NodePool
    from schemas.loading.selected_kinds import load_kinds

    found = load_kinds(source.file_source(), {"Cluster": Cluster, "Node": Node, "NodePool": NodePool}) or ()
    clusters = {one.name: one for one in found if isinstance(one, Cluster)}
    chosen = [one for name, one in clusters.items() if cluster in (None, name)]
    nodes = _nodes_by_name(found)
    if len(chosen) != 1 or nodes is None:
        return None
    if any(map(_names_a_secret, found)):
        return None
    only = next(iter(clusters)) if len(clusters) == 1 else ""
    owners = {name: node.spec.cluster or only for name, node in nodes.items()}
    if not clusters.keys() >= set(owners.values()):
        return None
    own = tuple(node for name, node in nodes.items() if owners[name] == chosen[0].name)
    address = StoreAddress.choose(source.directory, state, named=chosen[0].spec.state)
    return KernelAccess(source, chosen[0], own, NO_SECRETS, address, SystemClock())


def _nodes_by_name(found: tuple[Resource, ...]) -> dict[str, Node] | None:
    """Every machine, by name; None where one stands twice."""
    from schemas.kinds.node import Node, NodePool
    from schemas.repository.node_ranges import pool_nodes

    nodes = [one for one in found if isinstance(one, Node)]
    nodes += [node for one in found if isinstance(one, NodePool) for node in pool_nodes(one)]
    by_name = {node.name: node for node in sorted(nodes, key=lambda node: node.identity)}
    return by_name if len(by_name) == len(nodes) else None


def _names_a_secret(resource: Resource) -> bool:
    docker = resource.spec.docker.model_dump() if resource.spec.docker is not None else {}
    return _has_reference(resource.spec.ssh.model_dump()) or _has_reference(docker)


def _has_reference(fields: Mapping[str, object]) -> bool:
    """Whether `keyFrom` or one like it is set, however deep."""
    return any(
        _has_reference(value) if isinstance(value, Mapping) else name.endswith("_from") and value is not None
        for name, value in fields.items()
    )
