"""Which nodes replicas have to leave. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.values.state import Actual, Desired


def leaving_nodes(desired: Desired, actual: Actual) -> Mapping[str, str]:
    """Node → what it has become: drained, or no longer among the documents."""
    if not desired.services:
        return {}
    nodes = {node.name: node for node in desired.nodes}
    found = {name: "drained" for name, node in nodes.items() if node.spec.state == "drained"}
    for existing in actual.existing.values():
        placement = existing.recorded.placement
        for part in placement.kernels if placement is not None else ():
            if part.node not in nodes:
                found[part.node] = "not in the repository"
    return found
