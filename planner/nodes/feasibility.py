"""Which nodes can hold a demand, as arrays over many nodes at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planner.model import slots
from planner.model.demand import Demand, DeviceShare
from planner.nodes.node_table import CORES, MEMORY, MILLI, Bools, DeviceRows, Ints, NodeTable

Index = npt.NDArray[np.intp]


def fits(table: NodeTable, demand: Demand, nodes: Index, *, empty: bool = False) -> Bools:
    """Whether each node has room in total (`empty`: would have, with nothing on it).

    Exact but for several parts of devices at once, which only the mapping decides.
    """
    have = table.capacity if empty else table.totals
    return _has_room(table, have[:, nodes], demand)


def fits_one_domain(table: NodeTable, demand: Demand, nodes: Index) -> Bools:
    """Whether each node has room for all of it on one NUMA domain."""
    result: Bools = np.logical_or.reduce(_has_room(table, table.domains[:, :, nodes], demand), axis=0)
    return result


def _has_room(table: NodeTable, have: Ints, demand: Demand) -> Bools:
    """`have`: [feature, ..., node]."""
    result: Bools = np.asarray(np.greater_equal(have[CORES], demand.cores), dtype=np.bool_)
    if demand.milli:
        result &= have[MILLI] >= demand.milli
    if demand.memory:
        result &= have[MEMORY] >= demand.memory
    for slot, amount in demand.pages:
        row = table.page_rows.get(slot)
        if row is None:
            return np.zeros_like(result)
        result &= have[row] >= amount
    for slot, count in demand.whole:
        feature = table.device_rows.get(slot)
        if feature is None:
            return np.zeros_like(result)
        result &= have[feature.whole] >= count
    for share in demand.shares:
        feature = table.device_rows.get(slots.whole_slot(share.slot))
        if feature is None:
            return np.zeros_like(result)
        result &= _fits_share(have, feature, share)
    return result


def _fits_share(have: Ints, feature: DeviceRows, share: DeviceShare) -> Bools:
    whole, rest = divmod(share.milli, 1000)
    enough: Bools = have[feature.milli] >= share.milli
    if share.spread == "even" and whole and rest:
        return enough
    exact: Bools = have[feature.whole] >= whole + bool(rest)
    if rest:
        exact |= (have[feature.whole] >= whole) & (have[feature.part] >= rest)
    return exact
