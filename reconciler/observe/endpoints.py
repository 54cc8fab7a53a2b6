"""How nodes are reached: what their documents and their cluster's say, put together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from providers.machines.base import Endpoint, no_secret
from reconciler.values.documents.local_nodes import LOCAL_ADDRESSES

if TYPE_CHECKING:
    from schemas.kinds.cluster import ClusterSpec, Ssh
    from schemas.kinds.node import Node


def is_local(node: Node) -> bool:
    """Whether a node is this machine."""
    return (node.spec.address or node.name) in LOCAL_ADDRESSES


def endpoints(
    nodes: Iterable[Node], cluster: ClusterSpec, secret: Callable[[str], str] = no_secret
) -> tuple[Endpoint, ...]:
    """How each node is reached: its own SSH values over its cluster's; `secret` reads their keys."""
    return tuple(
        Endpoint(
            node.name,
            node.spec.address or node.name,
            is_local(node),
            cluster.ssh.model_copy(update=_set_fields(node.spec.ssh)),
            node.spec.docker.options_set if cluster.provider == "docker" else {},
            secret,
        )
        for node in nodes
    )


def _set_fields(model: Ssh) -> dict[str, object]:
    return {name: value for name, value in model if value is not None}
