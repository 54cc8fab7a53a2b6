"""Where images are to be before any session needs them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.values.state import Desired
    from schemas.kinds.image import Image
    from schemas.kinds.node import Node


def pre_pull_nodes(desired: Desired, image: Image) -> tuple[Node, ...]:
    """The nodes that are to have an image before any session needs it."""
    chosen = image.spec.pre_pull
    if chosen is None:
        return ()

    def wanted(node: Node) -> bool:
        labels: Mapping[str, str] = {**node.metadata.labels, **node.spec.labels}
        return (
            chosen.all
            or node.name in chosen.nodes
            or bool(chosen.node_selector and chosen.node_selector.items() <= labels.items())
            or (desired.repository.group_of_node(node) or "") in chosen.resource_groups
        )

    return tuple(node for node in desired.nodes if node.spec.state != "drained" and wanted(node))
