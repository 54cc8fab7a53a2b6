"""A group's capacity, what is allocated, and how many more sessions of typical sizes fit."""

from __future__ import annotations

from planner.model import slots
from planner.nodes.node_arrays import CORES, MEMORY, MILLI, Ints, World

SIZES = (1, 2, 4, 8, 16)


def slots_of(world: World, table: Ints) -> dict[str, int]:
    """Totals over the active nodes: `cpu` milli, `mem` bytes, untouched devices per slot, and `.shares` milli
    beside `.device`.
    """
    active = [at for at, node in enumerate(world.nodes) if node.state == "active"]
    sums = [int(value) for value in table[:, active].sum(axis=1)] if active else [0] * world.width
    result = {slots.CPU: sums[MILLI], slots.MEMORY: sums[MEMORY]}
    for slot, feature in world.features.items():
        result[slot] = sums[feature.whole]
        if slot.endswith(slots.DEVICE):
            result[slot.removesuffix(slots.DEVICE) + slots.SHARES] = sums[feature.milli]
    return result


def used(world: World) -> dict[str, int]:
    """What is allocated now; a partly used device counts as used in `.device` and by its part in
    `.shares`.
    """
    capacity, free = slots_of(world, world.capacity), slots_of(world, world.totals)
    return {slot: capacity[slot] - free[slot] for slot in capacity}


def device_slot(world: World) -> str | None:
    """The slot whose devices the sizes of a group count; None for a group without devices."""
    return next((slot for slot in world.features if slot.endswith(slots.DEVICE)), None)


def fits_more(world: World) -> dict[str, int]:
    """How many sessions of each size fit beside each other, counted on one resource: `1 GPU`, ... or cores
    without GPUs.
    """
    active = [at for at, node in enumerate(world.nodes) if node.state == "active"]
    slot = device_slot(world)
    feature = world.features[slot].whole if slot else CORES
    word = slots.device_word(slot) if slot else "core"
    free, most = world.totals[feature, active], int(world.capacity[feature, active].max(initial=0))
    return {slots.plural(size, word): int((free // size).sum()) for size in SIZES if size <= most}
