"""One cluster on one screen: its loop, its queue, what is free, what runs; in words, and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bai.render.humanize import clean, plural, short_name
from bai.render.nodes.rows import is_gpu_held
from bai.render.resources.loop_status import LoopStatus, loop_json, loop_lines, pass_json, pass_lines
from bai.render.resources.status import SessionRow
from planner.model.types import NodeInfo, Placement, Wait

UNEXPLAINED = "unexplained"
"""In place of a reason: no plan could be made now, or the next pass starts it."""
MOST_RUNNING = 15
"""Running sessions that text shows."""


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
    running: tuple[SessionRow, ...]
    complete: bool = True
    """Whether everything could be observed."""


def count_queue(rows: Iterable[SessionRow], waits: Mapping[str, Wait]) -> dict[str, int]:
    """How many wait for what, most first."""
    codes: Counter[str] = Counter()
    for row in rows:
        if row.phase == "PENDING":
            wait = waits.get(row.id)
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


def status_lines(status: ClusterStatus) -> Iterator[str]:
    """One screen."""
    commit = f" at {clean(status.commit[:12])}" if status.commit else ", as its files are"
    yield from _block("cluster", [f"{clean(status.cluster)}{commit}"])
    yield from _block("loop", loop_lines(status.loop))
    yield from _block("last pass", pass_lines(status.loop))
    yield from _block("queue", [_queue_text(status.queue)])
    yield from _block("gpus", [_gpus_text(status.gpus)])
    yield from _block("sessions", [_counts_text(status.phases) or "none"])
    shown = status.running[:MOST_RUNNING]
    yield from _block("running", (_running_text(row) for row in shown))
    if len(status.running) > len(shown):
        yield from _block("", [f"and {len(status.running) - len(shown)} more: bai get --phase running"])
    if not status.complete:
        yield from _block("warning", ["not everything could be observed"])


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


def _block(name: str, lines: Iterable[str]) -> Iterator[str]:
    for at, line in enumerate(lines):
        yield f"{name if at == 0 else '':11}{line}"


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


def _running_text(row: SessionRow) -> str:
    return "  ".join(filter(None, [short_name(row.id), clean(row.nodes), row.age, clean(row.devices)]))
