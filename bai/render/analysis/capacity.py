"""What the resource groups still have room for, before and after the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bai.render.humanize import clean, format_milli, join_limited, plural, short_name, slot_amount
from bai.render.printout import Section, Table
from planner.model.slots import device_word, slots_text

if TYPE_CHECKING:
    from planner.advice.capacity import GroupCapacity, GroupView, SizeFit
    from planner.advice.repartition import Repartition
    from planner.nodes.free_devices import FreeDevices

_BAR = 20
"""Characters of the longest bar."""


def capacity_sections(groups: Sequence[GroupCapacity]) -> list[Section]:
    """The report of all groups; `a -> b` is before and after the plan."""
    return [section for group in groups for section in _group_sections(group)]


def before_after(before: object, after: object) -> str:
    """`12`, or `12 -> 9` where the plan changes it."""
    return str(after) if before == after else f"{before} -> {after}"


def _group_sections(found: GroupCapacity) -> Iterator[Section]:
    before, after = found.before, found.after
    title = f"{found.group}: {after.active} of {plural(after.nodes, 'node')} active"
    slots = Table(("slot", "capacity", "allocated", "free"), tuple(_slot_rows(before, after)))
    yield Section(title, (slots,) if slots.rows else ("nothing is there",))
    rows = [*_fit_rows(before.sizes, after.sizes), *_fit_rows(before.typical, after.typical)]
    if rows:
        columns = ("one more session of", "fits", "each on one NUMA node", "asked for by")
        yield Section("How many more fit, each size alone", (Table(columns, tuple(rows)),), 2)
    if before.scatter is not None and after.scatter is not None:
        lies = tuple(_scatter_lines(before.scatter, after.scatter, found.least_beside))
        yield Section(
            "How the free devices lie", (*lies, _free_device_table(before.scatter, after.scatter)), 2
        )
    if found.layouts:
        columns = ("node", "give up idle", "then", "serves")
        rows = [_layout_row(one) for one in found.layouts]
        yield Section(
            "MIG layouts for those who wait; nothing changes by itself",
            (Table(columns, tuple(rows)),),
            2,
        )


def _layout_row(one: Repartition) -> tuple[str, ...]:
    drops = join_limited(map(clean, one.drops)) or "nothing"
    return clean(one.node), drops, clean(one.command), join_limited(map(short_name, one.serves))


def _slot_rows(before: GroupView, after: GroupView) -> Iterator[tuple[str, ...]]:
    for name, most in sorted(after.capacity.items()):
        if not most:
            continue
        used = before_after(slot_amount(name, before.used[name]), slot_amount(name, after.used[name]))
        free = before_after(slot_amount(name, before.free[name]), slot_amount(name, after.free[name]))
        yield clean(name), slot_amount(name, most), used, free


def _fit_rows(before: Sequence[SizeFit], after: Sequence[SizeFit]) -> Iterator[tuple[str, ...]]:
    was = {one.words: one for one in before}
    for now in after:
        old = was.get(now.words, now)
        one_numa = "" if now.one_numa is None else before_after(old.one_numa, now.one_numa)
        fits = before_after(old.fits, now.fits) + (" or more" if now.at_least else "")
        yield now.words, fits, one_numa, plural(now.asked, "session") if now.asked else ""


def _scatter_lines(before: FreeDevices, after: FreeDevices, beside: Mapping[str, int]) -> Iterator[str]:
    word = device_word(after.slot)
    where = f" on {after.largest_on}" if after.largest_on else ""
    largest = before_after(plural(before.largest, word), plural(after.largest, word))
    yield f"largest free block: {largest}{where}"
    parts = before_after(format_milli(before.parts), format_milli(after.parts))
    rest = "" if parts == "0" else f", and {parts} in parts of {word}s"
    fragments = before_after(before.fragments, after.fragments)
    yield f"free in fragments (beside others that are taken): {fragments}{rest}"
    stranded = before_after(before.stranded, after.stranded)
    yield f"stranded (less than {slots_text(beside)} left beside each): {stranded}"
    split = join_limited(map(short_name, after.split)) or "none"
    yield f"sessions over several NUMA nodes: {split}"


def _free_device_table(before: FreeDevices, after: FreeDevices) -> Table:
    """Nodes by how many of their devices are free."""
    counts = sorted({*before.nodes_by_free, *after.nodes_by_free})
    longest = max(after.nodes_by_free.values(), default=1)
    rows = []
    for free in counts:
        was, now = before.nodes_by_free.get(free, 0), after.nodes_by_free.get(free, 0)
        rows.append((str(free), before_after(was, now), "=" * -(-now * _BAR // longest)))
    return Table((f"free {device_word(after.slot)}s on a node", "nodes", ""), tuple(rows))


def capacity_json(found: GroupCapacity) -> dict[str, object]:
    """One group of `bai capacity --format json`."""
    return {
        "group": found.group,
        "leastBeside": dict(found.least_beside),
        "before": _view_json(found.before),
        "after": _view_json(found.after),
        "migLayouts": [_layout_json(one) for one in found.layouts],
    }


def _layout_json(one: Repartition) -> dict[str, object]:
    return {
        "node": one.node,
        "gpu": one.gpu,
        "drops": list(one.drops),
        "profile": one.profile,
        "starts": list(one.starts),
        "command": one.command,
        "serves": list(one.serves),
    }


def _view_json(view: GroupView) -> dict[str, object]:
    return {
        "nodes": view.nodes,
        "activeNodes": view.active,
        "capacity": dict(view.capacity),
        "allocated": dict(view.used),
        "free": dict(view.free),
        "sizes": [_fit_json(one) for one in view.sizes],
        "typical": [_fit_json(one) for one in view.typical],
        "devices": None if view.scatter is None else _scatter_json(view.scatter),
    }


def _fit_json(one: SizeFit) -> dict[str, object]:
    return {
        "size": one.words,
        "fits": one.fits,
        "atLeast": one.at_least,
        "onOneNumaNode": one.one_numa,
        "asked": one.asked,
        "nodes": one.nodes,
    }


def _scatter_json(lies: FreeDevices) -> dict[str, object]:
    by_free = {str(free): nodes for free, nodes in lies.nodes_by_free.items()}
    return {
        "slot": lies.slot,
        "free": lies.free,
        "largestBlock": lies.largest,
        "largestBlockOn": lies.largest_on,
        "inFragments": lies.fragments,
        "partsMilli": lies.parts,
        "stranded": lies.stranded,
        "nodesByFree": by_free,
        "overSeveralNumaNodes": list(lies.split),
    }
