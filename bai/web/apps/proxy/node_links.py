"""The nodes where browsers come in, one for each cluster at most, as its documents say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from bai.web.apps.proxy.node_link import NodeLink
from providers.machines.base import Endpoint


class NodeLinks:
    """Connections to them come to `entry`; `folder` is this process's alone. Followed by the clusters' loops,
    each its own cluster."""

    def __init__(self, entry: Path, folder: Path, say: Callable[[str], None]) -> None:
        self._entry, self._folder, self._say = entry, folder, say
        self._links: dict[str, NodeLink] = {}
        self._ended: list[NodeLink] = []
        self._seen: dict[str, tuple[str, Sequence[Endpoint]]] = {}

    @property
    def nodes(self) -> Collection[str]:
        return [link.endpoint.name for link in list(self._links.values())]

    def follow(
        self, cluster: str, node: str, endpoints: Sequence[Endpoint], wanted_here: Callable[[], bool]
    ) -> None:
        """Browsers come in at this node of the cluster from now on; empty: at none. The way in is held while
        `wanted_here` says so: one server has it. Endpoints that are the same object say nothing new."""
        known = self._seen.get(cluster)
        if known is not None and known[0] == node and known[1] is endpoints:
            return
        self._seen[cluster] = node, endpoints
        wanted = next((each for each in endpoints if each.name == node), None) if node else None
        link = self._links.get(cluster)
        if link is not None and link.endpoint == wanted:
            return
        if link is not None:
            link.stop()
            self._ended.append(self._links.pop(cluster))
        if wanted is not None:
            link = self._links[cluster] = NodeLink(wanted, self._entry, self._folder, wanted_here, self._say)
            link.start()

    def close(self) -> None:
        links = [*self._links.values(), *self._ended]
        for link in links:
            link.stop()
        for link in links:
            link.close()
