"""Which kinds of GPU request are typical of a group, and which of the rest only few nodes can serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from planner.model.request_kinds import RequestKind
from planner.nodes.node_table import CORES, MEMORY, MILLI, Bools, Ints, NodeTable

COVER = 0.95
"""Share of the requests that count as typical, most frequent first."""
FEW = 0.5
"""A request is scarce when nodes with less than this share of the group's devices can serve it."""


def typical_kinds(kinds: Mapping[RequestKind, int]) -> dict[RequestKind, int]:
    """The most frequent of `kinds`, which come in that order, until they cover 95 %."""
    kept: dict[RequestKind, int] = {}
    enough = COVER * sum(kinds.values())
    for kind, count in kinds.items():
        kept[kind] = count
        if sum(kept.values()) >= enough:
            break
    return kept


def scarce_kinds(table: NodeTable, kinds: Mapping[RequestKind, int]) -> dict[RequestKind, float]:
    """Kinds that are not typical and that few nodes can serve → how much of what these nodes have they ask
    for: their share of the demand over the nodes' share of the devices, at most 1."""
    devices = _device_counts(table)
    total, demand = int(devices.sum()), sum(kind.demand * count for kind, count in kinds.items())
    found = {}
    for kind in [kind for kind in kinds if kind not in typical_kinds(kinds)]:
        supply = int(devices[_capable_nodes(table, kind, devices)].sum())
        if 0 < supply < FEW * total:
            found[kind] = min(1.0, kind.demand * kinds[kind] / demand * total / supply)
    return found


def serving_nodes(table: NodeTable, kinds: Iterable[RequestKind]) -> Bools:
    """Whether each node has a device of the models that each kind names; shape (nodes, kinds)."""
    asked = [kind.models for kind in kinds]
    models = [frozenset(gpu.model for gpu in node.hardware.gpus) for node in table.nodes]
    served = {one: [not wanted or not wanted.isdisjoint(one) for wanted in asked] for one in set(models)}
    return np.array([served[one] for one in models], dtype=np.bool_).reshape(len(models), len(asked))


def _device_counts(table: NodeTable) -> Ints:
    """Devices of each empty node."""
    rows = [feature.whole for slot, feature in table.device_rows.items() if slot.endswith(".device")]
    devices: Ints = table.capacity[rows].sum(axis=0)
    return devices


def _capable_nodes(table: NodeTable, kind: RequestKind, devices: Ints) -> Bools:
    """The nodes that could serve one request of this kind with nothing else on them."""
    cpu = np.maximum(table.capacity[MILLI], 1000 * table.capacity[CORES])
    able: Bools = (cpu >= kind.cpu) & (table.capacity[MEMORY] >= kind.memory) & (devices >= kind.devices)
    return able & serving_nodes(table, [kind])[:, 0]
