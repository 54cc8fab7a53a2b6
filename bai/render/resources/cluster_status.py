"""One cluster on one screen: its loop, its queue, what is free, what runs; in words, and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, format_milli, plural, short_name
from bai.render.nodes.rows import is_gpu_held
from bai.render.printout import Entry, Overview
from bai.render.resources.loop_status import (
    LoopState,
    LoopStatus,
    loop_json,
    loop_lines,
    pass_json,
    pass_lines,
)
from bai.render.resources.status import session_row

if TYPE_CHECKING:
    from bai.render.resources.status import SessionFacts
    from planner.model.types import NodeInfo, Placement, Wait

UNEXPLAINED = "unexplained"
"""In place of a reason: no plan could be made now, or the next pass starts it."""
MOST_RUNNING = 15
"""Running sessions that text shows."""
_MARGIN = 11
"""Columns before what is told."""
_LOOP_STYLES: Mapping[LoopState, str] = {
    "suspended": "yellow", "held": "yellow", "awaiting-approval": "yellow",
    "running": "green", "stopped": "red",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GpuCount:
    """GPUs of a group. `free`: healthy, wholly free, on a node that takes sessions."""

    total: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """What is known of one cluster now."""

    cluster: str
    commit: str
    """That the documents are from; empty for a folder's files."""
    loop: LoopStatus
    queue: Mapping[str, int]
    """Code of the first reason → sessions that wait for it."""
    gpus: Mapping[str, GpuCount]
    """By group."""
    phases: Mapping[str, int]
    running: tuple[SessionFacts, ...]
    complete: bool = True
    """Whether everything could be observed."""


def count_queue(sessions: Iterable[SessionFacts], waits: Mapping[str, Wait]) -> dict[str, int]:
    """How many wait for what, most first."""
    codes: Counter[str] = Counter()
    for each in sessions:
        if each.phase == "PENDING":
            wait = waits.get(each.id)
            codes[wait.reasons[0].code if wait is not None and wait.reasons else UNEXPLAINED] += 1
    return dict(sorted(codes.items(), key=lambda item: (-item[1], item[0])))


def count_gpus(
    nodes: Iterable[NodeInfo], placements: Iterable[Placement], unreached: Iterable[str]
) -> dict[str, GpuCount]:
    """By group, of those that have any."""
    held: dict[str, set[str]] = {}
    for placement in placements:
        for kernel in placement.kernels:
            held.setdefault(kernel.node, set()).update(grant.id for grant in kernel.devices)
    away, found = set(unreached), dict[str, GpuCount]()
    for node in nodes:
        gpus, names = node.hardware.gpus, held.get(node.name, set())
        if not gpus:
            continue
        usable = node.state == "active" and node.name not in away
        free = sum(
            usable and gpu.healthy and gpu.id not in node.unhealthy and not is_gpu_held(gpu, names)
            for gpu in gpus
        )
        before = found.get(node.group, GpuCount())
        found[node.group] = GpuCount(before.total + len(gpus), before.free + free)
    return dict(sorted(found.items()))


def status_overview(status: ClusterStatus) -> Overview:
    """One screen."""
    return Overview(tuple(entry for entry in _entries(status) if entry.lines))


def _entries(status: ClusterStatus) -> Iterator[Entry]:
    commit = f" at {clean(status.commit[:12])}" if status.commit else ", as its files are"
    good = status.loop.last_pass is None or status.loop.last_pass.good
    yield Entry("cluster", (f"{clean(status.cluster)}{commit}",), "bold")
    yield Entry("loop", tuple(loop_lines(status.loop)), _LOOP_STYLES.get(status.loop.state, ""))
    yield Entry("last pass", tuple(pass_lines(status.loop)), "" if good else "red")
    yield Entry("queue", (_queue_text(status.queue),), "yellow" if status.queue else "")
    yield Entry("gpus", (_gpus_text(status.gpus),))
    yield Entry("sessions", (_counts_text(status.phases) or "none",))
    yield Entry("running", tuple(_running_lines(status.running)))
    if not status.complete:
        yield Entry("warning", ("not everything could be observed",), "yellow")


def status_json(status: ClusterStatus) -> dict[str, object]:
    """`bai.status/v1`."""
    return {
        "cluster": status.cluster,
        "commit": status.commit,
        "complete": status.complete,
        "loop": loop_json(status.loop),
        "lastPass": pass_json(status.loop),
        "queue": dict(status.queue),
        "gpus": {group: {"free": each.free, "total": each.total} for group, each in status.gpus.items()},
        "phases": dict(status.phases),
        "running": [row.id for row in status.running],
    }


def _queue_text(queue: Mapping[str, int]) -> str:
    waiting = sum(queue.values())
    if not waiting:
        return "nobody waits"
    return f"{plural(waiting, 'session')} {'waits' if waiting == 1 else 'wait'}: {_counts_text(queue)}"


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {clean(name)}" for name, count in counts.items())


def _gpus_text(gpus: Mapping[str, GpuCount]) -> str:
    if not gpus:
        return "none"
    free, total = sum(each.free for each in gpus.values()), sum(each.total for each in gpus.values())
    groups = ", ".join(f"{clean(name)} {each.free} of {each.total}" for name, each in gpus.items())
    return f"{free} of {total} free: {groups}"


def _running_lines(sessions: Sequence[SessionFacts]) -> Iterator[str]:
    """Session, nodes, age and devices below each other."""
    shown = list(map(session_row, sessions[:MOST_RUNNING]))
    cells = [(short_name(row.id), clean(row.nodes), row.age, _devices_text(row.gpu_milli)) for row in shown]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    if len(sessions) > len(shown):
        yield f"and {len(sessions) - len(shown)} more: bai get --phase running"


def _devices_text(milli: int) -> str:
    """`4 devices`, `0.5 device`; empty for none."""
    return f"{format_milli(milli)} device{'s' if milli > 1000 else ''}" if milli else ""
