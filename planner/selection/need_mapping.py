"""A need onto one node, exactly: its kernels are mapped one after another."""

from __future__ import annotations

from planner.devices.mapping import Mapping
from planner.model.node_state import ResourceState
from planner.nodes.node_table import NodeTable
from planner.selection.base import Need


def map_need(
    table: NodeTable, at: int, need: Need, state: ResourceState
) -> tuple[tuple[Mapping, ...], ResourceState] | None:
    """Every demand of the need onto node `at` in this state, the largest first; nothing is changed."""
    mapper = table.mappers[at]
    if len(need.demands) == 1:
        only = mapper.map(state, need.demands[0])
        return ((only,), only.state) if only else None
    mappings: dict[int, Mapping] = {}
    for one in sorted(range(len(need.demands)), key=lambda one: _size(need, one)):
        mapping = mapper.map(state, need.demands[one])
        if mapping is None:
            return None
        mappings[one] = mapping
        state = mapping.state
    return tuple(mappings[one] for one in range(len(need.demands))), state


def _size(need: Need, at: int) -> tuple[int, int, int, int, int]:
    """Sort key: most devices first, then cores, then memory, then huge pages, then the given order."""
    demand = need.demands[at]
    devices = sum(1000 * count for _, count in demand.whole) + sum(share.milli for share in demand.shares)
    pages = sum(amount for _, amount in demand.pages)
    return (-devices, -1000 * demand.cores - demand.milli, -demand.memory, -pages, at)
