"""Why a session has no room, with the numbers a person can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from planner.model import slots, unfit_devices
from planner.model.demand import Demand, Share
from planner.model.types import Reason
from planner.nodes.feasibility import Index, fits
from planner.nodes.node_arrays import CORES, MEMORY, MILLI, Ints, World
from planner.selection import mig
from planner.selection.base import Need, NodeFilter
from planner.selection.choose import Chooser
from planner.selection.fabric import LEAF, Leaves
from planner.selection.gang import Shape, matching


def lack_of_room(
    chooser: Chooser, shape: Shape, group: str, excluded: tuple[int, ...] = ()
) -> tuple[Reason, ...]:
    """Reasons why the shape has no room now off the excluded nodes; code `no-node`, `impossible` or
    `no-capacity`.
    """
    reasons: dict[Reason, None] = {}
    for need in dict.fromkeys(shape.needs):
        count = shape.needs.count(need)
        if len(set(shape.needs)) > 1 and len(set(chooser.holders(need)) - set(excluded)) >= count:
            continue  # it lacks nothing for these
        if shape.one_leaf and (leaf := _one_leaf(chooser, need, count, group, excluded)):
            reasons[leaf] = None
            continue
        reasons[_one(chooser, need, count, group, excluded)] = None
        gone = unfit_devices.reason(
            (chooser.world.nodes[at] for at in _admitted(chooser, need.filter)), need.sum
        )
        reasons.update({gone: None} if gone else {})
        if any(mig.MIG in slot for slot, _ in need.sum.whole):
            reasons.update(dict.fromkeys(mig.advice(chooser, need, excluded)))
    return tuple(reasons) or (_together(chooser, shape, group, excluded),)


def _together(chooser: Chooser, shape: Shape, group: str, excluded: tuple[int, ...]) -> Reason:
    """Why a gang has no room though there is some for each of its containers."""
    counts = Counter(demand_words(need.sum) for need in shape.needs)
    parts = [f"{slots.plural(count, 'node')} with {text}" for text, count in counts.items()]
    where = " on one leaf switch" if shape.one_leaf else ""
    needs = f"needs {' and '.join(parts)}, all different{where}"
    if not possible(chooser, shape, excluded):
        return Reason("impossible", f"{needs}; group {group} has them one by one, and never all of them")
    return Reason("no-capacity", f"{needs}; there is room for each, and not for all beside each other")


def possible(chooser: Chooser, shape: Shape, excluded: tuple[int, ...] = ()) -> bool:
    """Whether the empty group could hold the shape off the excluded nodes."""
    able = {need: _without(chooser.able(need), excluded) for need in dict.fromkeys(shape.needs)}
    leaves = chooser.fabric.leaves
    if not shape.one_leaf:
        return _apart(shape, able)
    return leaves is not None and any(
        _apart(shape, {need: nodes[leaves.of[nodes] == leaf] for need, nodes in able.items()})
        for leaf in set(leaves.of.tolist())
    )


def _apart(shape: Shape, able: Mapping[Need, Index]) -> bool:
    """Whether every need finds a node of its own."""
    if any(len(nodes) < shape.needs.count(need) for need, nodes in able.items()):
        return False
    return len(able) == 1 or matching([able[need].tolist() for need in shape.needs]) is not None


def _one(chooser: Chooser, need: Need, count: int, group: str, excluded: tuple[int, ...]) -> Reason:
    world = chooser.world
    admitted = _admitted(chooser, need.filter)
    if not len(admitted):
        return Reason("no-node", _no_node(world, need.filter, group))
    able = chooser.able(need)
    nodes = f"{count} nodes" if count > 1 else "one node"
    if len(able) < count:
        if count > 1 and len(able):
            why = f"group {group} has {len(able)} of that size"
            return Reason("impossible", f"needs {count} nodes with {demand_words(need.sum)} each; {why}")
        why = _shortest(world, need.sum, admitted, world.capacity, "has")
        if fits(world, need.sum, admitted, empty=True).any():
            why = f"no node of group {group}, even an empty one, can give that: {unmappable(need.sum)}"
            if need.sum.joined:
                why = f"no node of group {group} has so many joined by NVLink"
        return Reason("impossible", f"needs {demand_words(need.sum)} on {nodes}; {why}")
    admitted, able = _without(admitted, excluded), _without(able, excluded)
    fitting = admitted[fits(world, need.sum, admitted)]
    if len(fitting) and count > 1:
        each = f"needs {count} nodes with {demand_words(need.sum)} each"
        return Reason(
            "no-capacity", f"{each}; {slots.plural(len(fitting), 'node')} of {len(able)} could take one now"
        )
    return Reason("no-capacity", _shortage(world, need, able, nodes, len(fitting)))


def _one_leaf(
    chooser: Chooser, need: Need, count: int, group: str, excluded: tuple[int, ...]
) -> Reason | None:
    """Why no leaf switch has enough nodes; None when one has, or when all leaves together have not."""
    able = _without(chooser.able(need), excluded)
    if len(able) < count:
        return None
    needs = f"needs {count} nodes with {demand_words(need.sum)} each on one leaf switch"
    leaves = chooser.fabric.leaves
    if leaves is None:
        return Reason("impossible", f"{needs}; no node of group {group} has the label {LEAF}")
    most, name = _fullest(leaves, able)
    if most < count:
        return Reason("impossible", f"{needs}; the largest, {name}, has {most} of that size")
    free = able[fits(chooser.world, need.sum, able)]
    most, name = _fullest(leaves, free)
    if len(free) == 0:
        return None
    could = f"{name} has the most that could take one now: {most}"
    return Reason("no-capacity", f"{needs}; {could}, of {len(free)} on all leaves")


def _fullest(leaves: Leaves, nodes: Index) -> tuple[int, str]:
    """The largest number of these nodes on one leaf, and its name."""
    counts = Counter(leaves.of[nodes].tolist())
    leaf = min(counts, key=lambda one: (-counts[one], one), default=-1)
    return counts.get(leaf, 0), (leaves.names[leaf] or "one without a name") if leaf >= 0 else "none"


def _shortage(world: World, need: Need, able: Index, nodes: str, fitting: int) -> str:
    if fitting:
        where = slots.plural(fitting, "node")
        return f"needs {demand_words(need.sum)} on {nodes}; {where} would have it, but {unmappable(need.sum)}"
    return (
        f"needs {demand_words(need.sum)} on {nodes}; {_shortest(world, need.sum, able, world.totals, 'is')}"
    )


def unmappable(demand: Demand) -> str:
    """Why a node that has all amounts cannot hold the demand."""
    if demand.joined:
        return "not with all its GPUs joined by NVLink"
    if demand.storage:
        return "not with a core and memory on every NUMA node of its GPUs (GPUDirect Storage)"
    return "the free parts of its devices cannot be combined"


def _shortest(world: World, demand: Demand, nodes: Index, have: Ints, verb: str) -> str:
    """The first resource that no node offers, among the nodes that offer those before it."""
    left = nodes
    met = ""
    for kind, needed, values, unit in resources(world, demand, have):
        enough = values[left] >= needed
        if not enough.any():
            return _block(world, left, values, unit, met, kind, verb)
        left = left[enough]
        met = f"{met} and {unit(needed)}" if met else unit(needed)
    return "no node offers all of it at once"


def _block(
    world: World, nodes: Index, values: Ints, unit: Callable[[int], str], met: str, kind: str, verb: str
) -> str:
    best = nodes[int(values[nodes].argmax())]
    name, most = world.nodes[int(best)].name, unit(int(values[best]))
    if verb == "has":
        where = f"of the nodes with {met}, the largest" if met else "the largest node"
        return f"{where}, {name}, has {most}"
    total = unit(int(values[nodes].sum()))
    if met:
        return f"of {slots.plural(len(nodes), 'node')} with {met} free, {name} has the most {kind}: {most}"
    verb = "are" if not total.startswith("1 ") else "is"
    return f"the largest free block is {most} on {name}; {total} {verb} free in fragments"


class Wanted(NamedTuple):
    """One resource of a demand: what it is called, how much is needed, how much each node has, how to say an
    amount."""

    kind: str
    needed: int
    values: Ints
    unit: Callable[[int], str]


def resources(world: World, demand: Demand, have: Ints) -> list[Wanted]:
    """What a demand asks for, devices first; `have` are the world's totals or capacities."""
    found: list[Wanted] = []
    absent: Ints = np.zeros(len(world.nodes), dtype=np.int64)
    for slot, count in demand.whole:
        feature = world.features.get(slot)
        values = have[feature.whole] if feature else absent
        found.append(Wanted(slots.device_word(slot) + "s", count, values, partial(slots.amount_text, slot)))
    for share in demand.shares:
        found.append(_share(world, share, have, absent))
    if demand.milli:
        found.append(Wanted("cores", demand.milli, have[MILLI], partial(slots.amount_text, slots.CPU)))
    if demand.cores:
        found.append(Wanted("cores", demand.cores, have[CORES], _cores))
    if demand.memory:
        found.append(Wanted("memory", demand.memory, have[MEMORY], slots.bytes_text))
    return found


def _cores(count: int) -> str:
    return slots.amount_text(slots.CPU, 1000 * count)


def _share(world: World, share: Share, have: Ints, absent: Ints) -> Wanted:
    feature = world.features.get(slots.whole_slot(share.slot))
    if feature is None:
        values = absent
    elif share.milli <= 1000:
        values = np.maximum(have[feature.part], np.minimum(1000 * have[feature.whole], 1000))
    else:
        values = 1000 * have[feature.whole] + have[feature.part]
    return Wanted("GPU shares", share.milli, values, lambda n: f"{slots.decimal(n)} GPU")


def demand_words(demand: Demand) -> str:
    """A demand for a person: `4 GPUs, 32 cores, 256 GiB`."""
    parts = [slots.amount_text(slot, count) for slot, count in demand.whole]
    parts += [f"{slots.decimal(share.milli)} of a GPU" for share in demand.shares]
    if demand.cores:
        parts.append(slots.amount_text(slots.CPU, 1000 * demand.cores))
    if demand.milli:
        parts.append(slots.amount_text(slots.CPU, demand.milli) + " (shared)")
    if demand.memory:
        parts.append(slots.bytes_text(demand.memory))
    return ", ".join(parts) or "a place"


def _without(nodes: Index, excluded: tuple[int, ...]) -> Index:
    # np.setdiff1d would load all of numpy.ma, which nothing else here needs.
    return nodes[~np.isin(nodes, excluded)] if excluded else nodes


def _admitted(chooser: Chooser, wanted: NodeFilter) -> Index:
    return chooser.allowed(wanted).nonzero()[0]


def _no_node(world: World, wanted: NodeFilter, group: str) -> str:
    if not world.nodes:
        return f"group {group} has no nodes"
    active = [node for node in world.nodes if node.state == "active"]
    if not active:
        text = f"none of the {slots.plural(len(world.nodes), 'node')} of group {group} is active"
        notes = [f"{node.name} is {node.state}: {node.note}" for node in world.nodes if node.note][:3]
        return f"{text} ({'; '.join(notes)})" if notes else text
    asked = []
    if wanted.designated:
        asked.append(f"is one of {', '.join(sorted(wanted.designated))}")
    if wanted.gpu_models:
        asked.append(f"has a GPU model {' or '.join(sorted(wanted.gpu_models))}")
    if wanted.architectures:
        asked.append(f"is {' or '.join(sorted(wanted.architectures))}, on which its image runs")
    asked += [f"has the label {key}={value}" for key, value in wanted.selector]
    return f"none of the {slots.plural(len(active), 'active node')} of group {group} {' and '.join(asked)}"
