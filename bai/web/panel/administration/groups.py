"""Resource groups: whose turn it is in them, what room they have, and who waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, duration, iso_time, name_list, slot_amount
from bai.web.panel.administration.nodes import node_states
from bai.web.panel.views.device_drawing import fill_step
from planner.model.slots import device_word, plural
from schemas.problems.errors.command import NoSuchResource

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from planner.advice.capacity import GroupView
    from planner.model.types import Wait
    from schemas.kinds.resource_group import Reservation, ResourceGroup

_MOST_NAMES = 12


@dataclass(frozen=True, slots=True)
class GroupSlot:
    """What the active nodes have of one slot, in words; `fill` of ten steps."""

    name: str
    used: str
    capacity: str
    free: str
    fill: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group. `room`: how many more sessions of a size fit, alone on what is free, and how many of these
    on one NUMA node each; `waiting`: whoever they are, the first of those that the viewer sees since `since`;
    `queue`, `selection` and `preempts` are for who sees documents."""

    name: str
    nodes: int
    states: tuple[tuple[str, int], ...]
    slots: tuple[GroupSlot, ...]
    room: tuple[tuple[str, int, int | None], ...]
    waiting: int
    since: str
    queue: str
    selection: str
    preempts: bool
    reservations: int


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """Nodes that are kept for projects; times as ISO 8601."""

    name: str
    nodes: str
    projects: tuple[str, ...]
    started: str
    finished: str
    holds_now: bool


@dataclass(frozen=True, slots=True)
class GroupPage:
    """`policy`: rules in words, each with what it is about; `lies`: how the free devices lie; both, and
    reservations, are for who sees documents."""

    row: GroupRow
    policy: tuple[tuple[str, str], ...]
    reservations: tuple[ReservationRow, ...]
    lies: tuple[str, ...]


def group_list(view: PassView) -> tuple[GroupRow, ...]:
    """All groups of the cluster. Raises what looking raises."""
    return tuple(_rows(view, view.room))


def group_page(view: PassView, name: str) -> GroupPage:
    """Raises NoSuchResource, and what looking raises."""
    views = view.room
    row = next((each for each in _rows(view, views) if each.name == name), None)
    if row is None:
        raise NoSuchResource(what="resource group", name=clean(name), hint="")
    group = view.desired.groups[name]
    sees = view.sees(group.identity)
    found = views.get(name)
    return GroupPage(
        row=row,
        policy=tuple(_policy(group)) if sees else (),
        reservations=tuple(_reservations(group.spec.reservations, view.now)) if sees else (),
        lies=tuple(_lies(found)) if found and sees else (),
    )


def _rows(view: PassView, views: Mapping[str, GroupView]) -> Iterator[GroupRow]:
    states: dict[str, Counter[str]] = defaultdict(Counter)
    for each in node_states(view):
        states[each.group][each.state] += 1
    waits: dict[str, list[Wait]] = defaultdict(list)
    for wait in view.waits.values():
        waits[wait.group].append(wait)
    for name, group in sorted(view.desired.groups.items()):
        yield _row(view, group, views.get(name), states[name], waits[name])


def _row(
    view: PassView,
    group: ResourceGroup,
    found: GroupView | None,
    states: Mapping[str, int],
    waits: Iterable[Wait],
) -> GroupRow:
    spec, sees = group.spec, view.sees(group.identity)
    waits = tuple(waits)
    return GroupRow(
        name=group.name,
        nodes=sum(states.values()),
        states=tuple(sorted(states.items())),
        slots=tuple(_slots(found)) if found else (),
        room=tuple((clean(size.words), size.fits, size.one_numa) for size in found.sizes) if found else (),
        waiting=len(waits),
        since=iso_time(_first(view, waits)),
        queue=clean(spec.queue) if sees else "",
        selection=clean(spec.selection) if sees else "",
        preempts=sees and spec.preemption.mode == "priority",
        reservations=len(spec.reservations) if sees else 0,
    )


def _first(view: PassView, waits: Iterable[Wait]) -> float | None:
    items = (view.actual.existing.get(wait.session) for wait in waits if view.sees(wait.session))
    times = (item.recorded.enqueued_at for item in items if item is not None)
    return min((time for time in times if time is not None), default=None)


def _slots(found: GroupView) -> Iterator[GroupSlot]:
    for name, most in sorted(found.capacity.items()):
        if most:
            used = found.used[name]
            yield GroupSlot(
                clean(name),
                slot_amount(name, used),
                slot_amount(name, most),
                slot_amount(name, found.free[name]),
                fill_step(used, most),
            )


def _policy(group: ResourceGroup) -> Iterator[tuple[str, str]]:
    spec = group.spec
    yield "whose turn", ", ".join((clean(spec.queue), *_queue_options(group)))
    yield "which node", f"{clean(spec.selection)}, {spec.numa}"
    if spec.packing == "whole-queue":
        limit = duration(spec.packing_time_limit)
        yield "packing", f"the whole queue together, for {limit} of each plan at most"
    rule = spec.preemption
    if rule.mode == "priority":
        least = f", after {duration(rule.minimum_run_time)}" if rule.minimum_run_time else ""
        yield "preemption", f"by priority{least}; {duration(rule.grace)} to end"
    else:
        yield "preemption", "nobody is pushed out"
    loss = "started again elsewhere" if spec.node_loss.then == "reschedule" else "waited for"
    yield "lost nodes", f"after {duration(spec.node_loss.after)} their sessions are {loss}"
    parts = spec.fractional
    if parts.enforcement != "none":
        yield "parts of GPUs", f"{parts.shares_per_device} a device, by {parts.enforcement}, {parts.spread}"
    if spec.allowed_projects is not None:
        yield "only for projects", ", ".join(map(clean, spec.allowed_projects))
    if spec.allowed_types is not None:
        yield "only for sessions", ", ".join(spec.allowed_types)
    if spec.allow_root:
        yield "root", ", ".join(("sessions may be root of their image", *spec.allow_capabilities))


def _queue_options(group: ResourceGroup) -> Iterator[str]:
    options = group.spec.queue_options
    if options.backfill:
        yield "backfill"
    if options.max_skips is not None:
        yield f"the first is passed {plural(options.max_skips, 'time')} at most"
    if options.pending_timeout is not None:
        yield f"given up after {duration(options.pending_timeout)}"
    if options.hierarchy:
        yield "by domain and project"
    if options.half_life is not None:
        yield f"use counts half after {duration(options.half_life)}"
    for name, weight in sorted(options.weights.items()):
        yield f"{clean(name)} counts {weight} times"


def _reservations(found: Iterable[Reservation], now: float) -> Iterator[ReservationRow]:
    for each in sorted(found, key=lambda one: one.starts_at):
        starts, ends = each.starts_at.timestamp(), each.ends_at.timestamp()
        yield ReservationRow(
            name=clean(each.name),
            nodes=name_list(map(clean, each.nodes), _MOST_NAMES),
            projects=tuple(map(clean, each.projects)),
            started=iso_time(starts),
            finished=iso_time(ends),
            holds_now=starts <= now < ends,
        )


def _lies(found: GroupView) -> Iterator[str]:
    scatter = found.scatter
    if scatter is None:
        return
    word = device_word(scatter.slot)
    where = f" on {clean(scatter.largest_on)}" if scatter.largest_on else ""
    yield f"largest free block: {plural(scatter.largest, word)}{where}"
    yield f"free in fragments, beside others that are taken: {scatter.fragments}"
    for free, nodes in scatter.nodes_by_free.items():
        yield f"{plural(nodes, 'node')} with {plural(free, word)} free"
