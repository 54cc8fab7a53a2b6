"""MIG: where more instances fit on a GPU, and what layout would serve a session that waits for them.

Which profiles a GPU has and where their instances can sit is in `schemas.hardware.mig`. Only instances that
exist are given to sessions: making others is a change of the node, which is said and never done unasked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from planner.model import slots
from planner.model.device_family import bits
from planner.model.types import Reason
from planner.selection.base import Need
from planner.selection.node_scorer import NodeScorer
from schemas.hardware.anonymous import is_anonymous
from schemas.hardware.mig import placements, profile_on
from schemas.hardware.model import Gpu, MigDevice

MIG = ".mig."


class Layout(NamedTuple):
    """Instances to be made on one GPU, at these starts, after idle ones were given up."""

    gpu: Gpu
    starts: tuple[int, ...]
    dropped: tuple[str, ...]


def instance_starts(gpu: Gpu, name: str, stays: Iterable[MigDevice], most: int) -> tuple[int, ...]:
    """Where up to `most` more instances fit beside those that stay, leaving the most places for others;
    nowhere when it is not known where those that stay sit."""
    profile, taken = profile_on(gpu, name), 0
    if profile is None:
        return ()
    for instance in stays:
        run = _slice_mask(gpu, instance)
        if run is None or (profile.alone and instance.profile == name):
            return ()
        taken |= run
    most = min(most, 1) if profile.alone else most
    runs = {start: ((1 << profile.size) - 1) << start for start in profile.starts}
    for count in range(min(most, len(runs)), 0, -1):
        sets = itertools.combinations(runs, count)
        fitting = [one for one in sets if _disjoint(taken, [runs[at] for at in one])]
        if fitting:
            return max(fitting, key=lambda one: (_free_starts(gpu, taken | sum(runs[at] for at in one)), one))
    return ()


def layout_reasons(scorer: NodeScorer, need: Need, excluded: Sequence[int] = ()) -> Iterator[Reason]:
    """For every MIG profile of a need: why it waits, and what layout on which node would serve it."""
    for slot, count in need.sum.whole:
        if MIG in slot:
            yield Reason("mig", _layout_text(scorer, need, slot, count, excluded))


def _layout_text(scorer: NodeScorer, need: Need, slot: str, count: int, excluded: Sequence[int]) -> str:
    table, name = scorer.table, slot.partition(MIG)[2]
    closed = set(excluded)
    nodes = [at for at in scorer.admitted(need.filter).nonzero()[0].tolist() if at not in closed]
    feature = table.device_rows.get(slot)
    free = max((int(table.totals[feature.whole, at]) for at in nodes), default=0) if feature else 0
    all_ = sum(int(table.capacity[feature.whole, at]) for at in nodes) if feature else 0
    verb = "is" if all_ == 1 else "are"
    there = f"{slots.plural(all_, 'instance')} of {name} {verb} there, at most {free} free on one node"
    plans = [(plan, at) for at in nodes if (plan := plan_layouts(scorer, at, slot, count)) is not None]
    if plans:
        plan, at = min(
            plans, key=lambda one: (sum(len(part.dropped) for part in one[0]), len(one[0]), one[1])
        )
        return f"{there}; {table.nodes[at].name} would have {count} after {_commands_text(plan, name)}"
    enabled = [gpu for at in nodes for gpu in _mig_gpus(scorer, at, slot)]
    if not enabled:
        return f"{there}; no GPU there has MIG switched on"
    able = sum(profile_on(gpu, name) is not None for gpu in enabled)
    if not able:
        return f"{there}; none of the {slots.plural(len(enabled), 'GPU')} with MIG has the profile {name}"
    used = f"what is in use on the {slots.plural(able, 'GPU')} with this profile"
    return f"{there}; {used} leaves no layout with {count} on one node"


def plan_layouts(scorer: NodeScorer, at: int, slot: str, count: int) -> list[Layout] | None:
    """What to make on one node so that `count` instances are free there, idle ones of other profiles being
    given up only where it takes that; None when no layout does."""
    name = slot.partition(MIG)[2]
    idle = _idle_instances(scorer, at)
    gpus = _mig_gpus(scorer, at, slot)
    missing = count - sum(one.profile == name and one.id in idle for gpu in gpus for one in gpu.mig_devices)
    found: list[Layout] = []
    for gpu in gpus:
        starts = instance_starts(gpu, name, gpu.mig_devices, missing)
        if starts:
            found.append(Layout(gpu, starts, ()))
            missing -= len(starts)
    if missing <= 0:
        return found
    return _layouts_giving_up(gpus, name, idle, missing + sum(len(one.starts) for one in found))


def _layouts_giving_up(gpus: Sequence[Gpu], name: str, idle: set[str], missing: int) -> list[Layout] | None:
    """Layouts for all that is missing, one per GPU at most, that give up as few idle instances as will do;
    None when there are none."""
    best: dict[int, list[Layout]] = {0: []}
    """By the number of instances made on the GPUs so far, or `missing` for more."""
    for gpu in gpus:
        loose = [one for one in gpu.mig_devices if one.id in idle and one.profile != name]
        before = list(best.items())
        for layout in _layouts_on(gpu, name, loose, missing):
            for made, plan in before:
                total, longer = min(missing, made + len(layout.starts)), [*plan, layout]
                if total not in best or _plan_cost(longer) < _plan_cost(best[total]):
                    best[total] = longer
    return best.get(missing)


def _plan_cost(plan: Sequence[Layout]) -> tuple[int, int, list[int]]:
    """What is compared between plans: the instances given up, how many GPUs change, and which."""
    return (sum(len(one.dropped) for one in plan), len(plan), [one.gpu.index for one in plan])


def _layouts_on(gpu: Gpu, name: str, loose: Sequence[MigDevice], most: int) -> Iterator[Layout]:
    """For every number of idle instances given up that lets more fit, the best such layout."""
    best = 0
    for count in range(len(loose) + 1):
        for gone in itertools.combinations(loose, count):
            dropped = {one.id for one in gone}
            starts = instance_starts(
                gpu, name, [one for one in gpu.mig_devices if one.id not in dropped], most
            )
            if len(starts) > best:
                best = len(starts)
                yield Layout(gpu, starts, tuple(one.id for one in gone))


def _commands_text(plan: Sequence[Layout], name: str) -> str:
    parts = []
    for layout in plan:
        makes = ",".join(f"{name}:{start}" for start in layout.starts)
        command = f"`nvidia-smi mig -i {layout.gpu.index} -cgi {makes} -C`"
        gives_up = f"giving up the idle {' and '.join(layout.dropped)} and then " if layout.dropped else ""
        parts.append(gives_up + command)
    return ", ".join(parts)


def _mig_gpus(scorer: NodeScorer, at: int, slot: str) -> list[Gpu]:
    """Healthy GPUs of this kind on the node that are divided, or ready to be."""
    node, kind = scorer.table.nodes[at], slot.partition(MIG)[0]
    return [
        gpu
        for gpu in node.hardware.gpus
        if gpu.slot == kind
        and (gpu.mig == "enabled" or gpu.mig_devices)
        and not is_anonymous(gpu.id)
        and gpu.healthy
        and gpu.id not in node.unhealthy
    ]


def _idle_instances(scorer: NodeScorer, at: int) -> set[str]:
    """Instances on the node that nobody holds."""
    topology, state = scorer.table.topologies[at], scorer.table.states[at]
    families = [(number, family) for number, family in enumerate(topology.families) if MIG in family.slot]
    return {family.ids[one] for number, family in families for one in bits(state.free[number])}


def _slice_mask(gpu: Gpu, instance: MigDevice) -> int | None:
    """The memory slices of an instance, as a mask; None when its place is not known."""
    profile = profile_on(gpu, instance.profile)
    size = instance.size or (profile.size if profile else None)
    return None if instance.start is None or size is None else ((1 << size) - 1) << instance.start


def _disjoint(taken: int, runs: Sequence[int]) -> bool:
    for run in runs:
        if taken & run:
            return False
        taken |= run
    return True


def _free_starts(gpu: Gpu, taken: int) -> list[int]:
    """How many places are left for runs of 8, 4, 2 and 1 slices: what larger ones need counts first."""
    left: dict[int, int] = {}
    for (_, size), starts in placements(gpu).items():
        left[size] = left.get(size, 0) + sum(not taken & ((1 << size) - 1) << start for start in starts)
    return [left[size] for size in sorted(left, reverse=True)]
