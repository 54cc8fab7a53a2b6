"""The nodes of an open workspace as renderers want them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.model.types import NodeInfo
    from reconciler.values.state import Actual, Desired


def node_infos(desired: Desired, actual: Actual) -> dict[str, NodeInfo]:
    """Every node of the cluster whose hardware is known, as the planner gets it; by name."""
    from reconciler.plan.place.snapshot import node_infos as known

    return known(desired, actual)[0]
