"""What would be left on a node: devices first, then cores, then memory, packed into one integer."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from planner.nodes.feasibility import Index
from planner.nodes.node_table import CORES, MEMORY, MILLI, Ints, NodeTable
from planner.selection.base import Need

_DEVICES, _CORES, _MEMORY = 1 << 18, 1 << 20, 1 << 18


def leftover(table: NodeTable, need: Need, nodes: Index) -> Ints:
    """Devices (in eighths), cores (in tenths) and memory (in GiB) left after the placement, compared in this
    order.
    """
    demand = need.sum
    have = table.totals[:, nodes]
    devices: Ints = np.zeros(len(nodes), dtype=np.int64)
    for feature in table.device_rows.values():
        devices += have[feature.milli]
    taken = 1000 * sum(count for _, count in demand.whole) + sum(share.milli for share in demand.shares)
    cpu = have[MILLI] if demand.milli else 1000 * have[CORES]
    left = _clamp((devices - taken) // 125, _DEVICES) * _CORES
    left = (left + _clamp((cpu - 1000 * demand.cores - demand.milli) // 100, _CORES)) * _MEMORY
    packed: Ints = left + _clamp((have[MEMORY] - demand.memory) >> 30, _MEMORY)
    return packed


@lru_cache(maxsize=4096)
def describe_leftover(packed: int) -> str:
    """`leftover` of one node for a person."""
    memory = packed % _MEMORY
    cores = packed // _MEMORY % _CORES
    devices = packed // (_MEMORY * _CORES)
    gpus = f"{_count_text(devices / 8, 'device')}, " if devices else ""
    return f"leaves {gpus}{_count_text(cores / 10, 'core')}, {f'{memory} GiB' if memory else 'under 1 GiB'}"


def _count_text(count: float, word: str) -> str:
    return f"{count:g} {word}" if count == 1 else f"{count:g} {word}s"


def _clamp(values: Ints, limit: int) -> Ints:
    result: Ints = np.minimum(np.maximum(values, 0), limit - 1)
    return result
