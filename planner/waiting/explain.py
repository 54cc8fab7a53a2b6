"""Why a session has no room, with the numbers a person can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from planner.model import slots, unhealthy_devices
from planner.model.demand import Demand, DeviceShare
from planner.model.types import Reason
from planner.nodes.feasibility import Index, fits
from planner.nodes.node_table import CORES, MEMORY, MILLI, Ints, NodeTable
from planner.selection import mig
from planner.selection.base import Need, NodeFilter
from planner.selection.fabric import LEAF, Leaves
from planner.selection.gang import Shape, bipartite_matching
from planner.selection.node_scorer import NodeScorer


def no_room_reasons(
    scorer: NodeScorer, shape: Shape, group: str, excluded: tuple[int, ...] = ()
) -> tuple[Reason, ...]:
    """Reasons why the shape has no room now off the excluded nodes; code `no-node`, `impossible` or
    `no-capacity`.
    """
    reasons: dict[Reason, None] = {}
    for need in dict.fromkeys(shape.needs):
        count = shape.needs.count(need)
        if len(set(shape.needs)) > 1 and len(set(scorer.feasible_nodes(need)) - set(excluded)) >= count:
            continue  # it lacks nothing for these
        if shape.one_leaf and (leaf := _leaf_reason(scorer, need, count, group, excluded)):
            reasons[leaf] = None
            continue
        reasons[_need_reason(scorer, need, count, group, excluded)] = None
        gone = unhealthy_devices.unhealthy_wait_reason(
            (scorer.table.nodes[at] for at in _admitted(scorer, need.filter)), need.sum
        )
        reasons.update({gone: None} if gone else {})
        if any(mig.MIG in slot for slot, _ in need.sum.whole):
            reasons.update(dict.fromkeys(mig.layout_reasons(scorer, need, excluded)))
    return tuple(reasons) or (_gang_reason(scorer, shape, group, excluded),)


def _gang_reason(scorer: NodeScorer, shape: Shape, group: str, excluded: tuple[int, ...]) -> Reason:
    """Why a gang has no room though there is some for each of its containers."""
    counts = Counter(demand_text(need.sum) for need in shape.needs)
    parts = [f"{slots.plural(count, 'node')} with {text}" for text, count in counts.items()]
    where = " on one leaf switch" if shape.one_leaf else ""
    needs = f"needs {' and '.join(parts)}, all different{where}"
    if not fits_when_empty(scorer, shape, excluded):
        return Reason("impossible", f"{needs}; group {group} has them one by one, and never all of them")
    return Reason("no-capacity", f"{needs}; there is room for each, and not for all beside each other")


def fits_when_empty(scorer: NodeScorer, shape: Shape, excluded: tuple[int, ...] = ()) -> bool:
    """Whether the empty group could hold the shape off the excluded nodes."""
    able = {need: _exclude(scorer.capable_nodes(need), excluded) for need in dict.fromkeys(shape.needs)}
    leaves = scorer.fabric.leaves
    if not shape.one_leaf:
        return _distinct_nodes_exist(shape, able)
    return leaves is not None and any(
        _distinct_nodes_exist(
            shape, {need: nodes[leaves.leaf_of[nodes] == leaf] for need, nodes in able.items()}
        )
        for leaf in set(leaves.leaf_of.tolist())
    )


def _distinct_nodes_exist(shape: Shape, able: Mapping[Need, Index]) -> bool:
    """Whether every need finds a node of its own."""
    if any(len(nodes) < shape.needs.count(need) for need, nodes in able.items()):
        return False
    return len(able) == 1 or bipartite_matching([able[need].tolist() for need in shape.needs]) is not None


def _need_reason(scorer: NodeScorer, need: Need, count: int, group: str, excluded: tuple[int, ...]) -> Reason:
    table = scorer.table
    admitted = _admitted(scorer, need.filter)
    if not len(admitted):
        return Reason("no-node", _no_node_text(table, need.filter, group))
    able = scorer.capable_nodes(need)
    nodes = f"{count} nodes" if count > 1 else "one node"
    if len(able) < count:
        if count > 1 and len(able):
            why = f"group {group} has {len(able)} of that size"
            needs = f"needs {count} nodes with {demand_text(need.sum)} each"
            return Reason("impossible", f"{needs}; {why}", "nodes")
        lacks, why = _scarcest_resource(table, need.sum, admitted, table.capacity, "has")
        if fits(table, need.sum, admitted, empty=True).any():
            lacks = ""
            why = f"no node of group {group}, even an empty one, can give that: {unmappable_text(need.sum)}"
            if need.sum.joined:
                why = f"no node of group {group} has so many joined by NVLink"
        return Reason("impossible", f"needs {demand_text(need.sum)} on {nodes}; {why}", lacks)
    admitted, able = _exclude(admitted, excluded), _exclude(able, excluded)
    fitting = admitted[fits(table, need.sum, admitted)]
    if len(fitting) and count > 1:
        each = f"needs {count} nodes with {demand_text(need.sum)} each"
        could = f"{slots.plural(len(fitting), 'node')} of {len(able)} could take one now"
        return Reason("no-capacity", f"{each}; {could}", "nodes")
    return _shortage(table, need, able, nodes, len(fitting))


def _leaf_reason(
    scorer: NodeScorer, need: Need, count: int, group: str, excluded: tuple[int, ...]
) -> Reason | None:
    """Why no leaf switch has enough nodes; None when one has, or when all leaves together have not."""
    able = _exclude(scorer.capable_nodes(need), excluded)
    if len(able) < count:
        return None
    needs = f"needs {count} nodes with {demand_text(need.sum)} each on one leaf switch"
    leaves = scorer.fabric.leaves
    if leaves is None:
        return Reason("impossible", f"{needs}; no node of group {group} has the label {LEAF}")
    most, name = _fullest_leaf(leaves, able)
    if most < count:
        return Reason("impossible", f"{needs}; the largest, {name}, has {most} of that size")
    free = able[fits(scorer.table, need.sum, able)]
    most, name = _fullest_leaf(leaves, free)
    if len(free) == 0:
        return None
    could = f"{name} has the most that could take one now: {most}"
    return Reason("no-capacity", f"{needs}; {could}, of {len(free)} on all leaves")


def _fullest_leaf(leaves: Leaves, nodes: Index) -> tuple[int, str]:
    """The largest number of these nodes on one leaf, and its name."""
    counts = Counter(leaves.leaf_of[nodes].tolist())
    leaf = min(counts, key=lambda one: (-counts[one], one), default=-1)
    return counts.get(leaf, 0), (leaves.names[leaf] or "one without a name") if leaf >= 0 else "none"


def _shortage(table: NodeTable, need: Need, able: Index, nodes: str, fitting: int) -> Reason:
    needs = f"needs {demand_text(need.sum)} on {nodes}"
    if fitting:
        where = slots.plural(fitting, "node")
        return Reason("no-capacity", f"{needs}; {where} would have it, but {unmappable_text(need.sum)}")
    lacks, why = _scarcest_resource(table, need.sum, able, table.totals, "is")
    return Reason("no-capacity", f"{needs}; {why}", lacks)


def unmappable_text(demand: Demand) -> str:
    """Why a node that has all amounts cannot hold the demand."""
    if demand.joined:
        return "not with all its GPUs joined by NVLink"
    if demand.storage:
        return "not with a core and memory on every NUMA node of its GPUs (GPUDirect Storage)"
    return "the free parts of its devices cannot be combined"


def _scarcest_resource(
    table: NodeTable, demand: Demand, nodes: Index, have: Ints, verb: str
) -> tuple[str, str]:
    """The first resource that no node offers, among the nodes that offer those before it, and how much there
    is of it."""
    left = nodes
    met = ""
    for kind, needed, values, unit in wanted_resources(table, demand, have):
        enough = values[left] >= needed
        if not enough.any():
            return kind, _largest_block_text(table, left, values, unit, met, kind, verb)
        left = left[enough]
        met = f"{met} and {unit(needed)}" if met else unit(needed)
    return "", "no node offers all of it at once"


def _largest_block_text(
    table: NodeTable, nodes: Index, values: Ints, unit: Callable[[int], str], met: str, kind: str, verb: str
) -> str:
    best = nodes[int(values[nodes].argmax())]
    name, most = table.nodes[int(best)].name, unit(int(values[best]))
    if verb == "has":
        where = f"of the nodes with {met}, the largest" if met else "the largest node"
        return f"{where}, {name}, has {most}"
    total = unit(int(values[nodes].sum()))
    if met:
        what = "" if kind in slots.PAGES else f" {kind}"  # They are named with their amount.
        return f"of {slots.plural(len(nodes), 'node')} with {met} free, {name} has the most{what}: {most}"
    verb = "are" if not total.startswith("1 ") else "is"
    return f"the largest free block is {most} on {name}; {total} {verb} free in fragments"


class WantedResource(NamedTuple):
    """One resource of a demand: what it is called, how much is needed, how much each node has, how to say an
    amount."""

    kind: str
    needed: int
    values: Ints
    unit: Callable[[int], str]


def wanted_resources(table: NodeTable, demand: Demand, have: Ints) -> list[WantedResource]:
    """What a demand asks for, devices first; `have` are the table's totals or capacities."""
    found: list[WantedResource] = []
    absent: Ints = np.zeros(len(table.nodes), dtype=np.int64)
    for slot, count in demand.whole:
        feature = table.device_rows.get(slot)
        values = have[feature.whole] if feature else absent
        found.append(
            WantedResource(slots.device_word(slot) + "s", count, values, partial(slots.amount_text, slot))
        )
    for share in demand.shares:
        found.append(_wanted_share(table, share, have, absent))
    if demand.milli:
        found.append(
            WantedResource("cores", demand.milli, have[MILLI], partial(slots.amount_text, slots.CPU))
        )
    if demand.cores:
        found.append(WantedResource("cores", demand.cores, have[CORES], _cores_text))
    if demand.memory:
        found.append(WantedResource("memory", demand.memory, have[MEMORY], slots.bytes_text))
    for slot, amount in demand.pages:
        values = have[table.page_rows[slot]] if slot in table.page_rows else absent
        found.append(WantedResource(slot, amount, values, partial(slots.amount_text, slot)))
    return found


def _cores_text(count: int) -> str:
    return slots.amount_text(slots.CPU, 1000 * count)


def _wanted_share(table: NodeTable, share: DeviceShare, have: Ints, absent: Ints) -> WantedResource:
    feature = table.device_rows.get(slots.whole_slot(share.slot))
    if feature is None:
        values = absent
    elif share.milli <= 1000:
        values = np.maximum(have[feature.part], np.minimum(1000 * have[feature.whole], 1000))
    else:
        values = 1000 * have[feature.whole] + have[feature.part]
    return WantedResource("GPU shares", share.milli, values, lambda n: f"{slots.decimal(n)} GPU")


def demand_text(demand: Demand) -> str:
    """A demand for a person: `4 GPUs, 32 cores, 256 GiB`."""
    parts = [slots.amount_text(slot, count) for slot, count in demand.whole]
    parts += [f"{slots.decimal(share.milli)} of a GPU" for share in demand.shares]
    if demand.cores:
        parts.append(slots.amount_text(slots.CPU, 1000 * demand.cores))
    if demand.milli:
        parts.append(slots.amount_text(slots.CPU, demand.milli) + " (shared)")
    if demand.memory:
        parts.append(slots.bytes_text(demand.memory))
    parts += [slots.amount_text(slot, amount) for slot, amount in demand.pages]
    return ", ".join(parts) or "a place"


def _exclude(nodes: Index, excluded: tuple[int, ...]) -> Index:
    # np.setdiff1d would load all of numpy.ma, which nothing else here needs.
    return nodes[~np.isin(nodes, excluded)] if excluded else nodes


def _admitted(scorer: NodeScorer, wanted: NodeFilter) -> Index:
    return scorer.admitted(wanted).nonzero()[0]


def _no_node_text(table: NodeTable, wanted: NodeFilter, group: str) -> str:
    if not table.nodes:
        return f"group {group} has no nodes"
    active = [node for node in table.nodes if node.state == "active"]
    if not active:
        text = f"none of the {slots.plural(len(table.nodes), 'node')} of group {group} is active"
        notes = [f"{node.name} is {node.state}: {node.note}" for node in table.nodes if node.note][:3]
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
