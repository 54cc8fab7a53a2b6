"""A group's capacity, what is allocated, and how many more sessions of typical sizes fit."""

from __future__ import annotations

from planner.model import slots
from planner.nodes.node_table import CORES, MEMORY, MILLI, Ints, NodeTable

SIZES = (1, 2, 4, 8, 16)


def slot_totals(table: NodeTable, amounts: Ints) -> dict[str, int]:
    """Totals over the active nodes: `cpu` milli, `mem` bytes, untouched devices per slot, and `.shares` milli
    beside `.device`, bytes of huge pages.
    """
    active = table.active
    sums = [int(value) for value in amounts[:, active].sum(axis=1)] if active else [0] * table.width
    result = {slots.CPU: sums[MILLI], slots.MEMORY: sums[MEMORY]}
    for slot, feature in table.device_rows.items():
        result[slot] = sums[feature.whole]
        if slot.endswith(slots.DEVICE):
            result[slot.removesuffix(slots.DEVICE) + slots.SHARES] = sums[feature.milli]
    result |= {slot: sums[row] for slot, row in table.page_rows.items()}
    return result


def used_slots(table: NodeTable) -> dict[str, int]:
    """What is allocated now; a partly used device counts as used in `.device` and by its part in
    `.shares`.
    """
    capacity, free = slot_totals(table, table.capacity), slot_totals(table, table.totals)
    return {slot: capacity[slot] - free[slot] for slot in capacity}


def device_slot(table: NodeTable) -> str | None:
    """The slot whose devices the sizes of a group count; None for a group without devices."""
    return next((slot for slot in table.device_rows if slot.endswith(slots.DEVICE)), None)


def room_by_size(table: NodeTable) -> dict[str, int]:
    """How many sessions of each size fit beside each other, counted on one resource: `1 GPU`, ... or cores
    without GPUs.
    """
    active = table.active
    slot = device_slot(table)
    feature = table.device_rows[slot].whole if slot else CORES
    word = slots.device_word(slot) if slot else "core"
    free, most = table.totals[feature, active], int(table.capacity[feature, active].max(initial=0))
    return {slots.plural(size, word): int((free // size).sum()) for size in SIZES if size <= most}
