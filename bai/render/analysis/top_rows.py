"""What kernels use, as rows: rates from two samples of their counters. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bai.render.humanize import clean, short, size
from providers.abilities import Usage
from providers.base import Labels

COLUMNS = (
    "session",
    "kernel",
    "node",
    "cpu %",
    "memory",
    "limit",
    "net in",
    "net out",
    "pids",
    "gpu %",
    "gpu mem",
)


@dataclass(frozen=True, slots=True)
class UseRow:
    """One kernel, or a session's sum (`kernel` empty). None: not known.

    `cpu` in percent of one core; bytes, and bytes a second; `gpu` the mean of its devices in percent.
    """

    session: str
    kernel: str
    node: str
    cpu: float | None = None
    memory: int | None = None
    limit: int | None = None
    network_in: float | None = None
    network_out: float | None = None
    pids: int | None = None
    gpu: float | None = None
    gpu_memory: int | None = None
    gpus: int = 0


def rows(
    before: Mapping[str, Usage], after: Mapping[str, Usage], labels: Mapping[str, Labels]
) -> list[UseRow]:
    """One row per kernel of `labels` (by kernel id) that was measured now."""
    return [_row(before.get(name), use, labels[name]) for name, use in after.items() if name in labels]


def _row(before: Usage | None, now: Usage, labels: Labels) -> UseRow:
    seconds = (now.at - before.at).total_seconds() if before else 0.0

    def rate(counter: Callable[[Usage], float | None]) -> float | None:
        """None without two samples, and when the counter began anew in between."""
        was, is_ = counter(before) if before else None, counter(now)
        if was is None or is_ is None or seconds <= 0 or is_ < was:
            return None
        return (is_ - was) / seconds

    cpu = rate(lambda use: use.cpu_seconds)
    busy = [gpu.busy for gpu in now.gpus.values() if gpu.busy is not None]
    return UseRow(
        session=labels.resource,
        kernel=labels.kernel,
        node=labels.node,
        cpu=None if cpu is None else cpu * 100,
        memory=now.memory,
        limit=now.memory_limit,
        network_in=rate(lambda use: use.network_in),
        network_out=rate(lambda use: use.network_out),
        pids=now.pids,
        gpu=sum(busy) / len(busy) if busy else None,
        gpu_memory=_sum(gpu.memory for gpu in now.gpus.values()),
        gpus=len(now.gpus),
    )


def arranged(found: Iterable[UseRow], sort: str) -> list[UseRow]:
    """Sessions by what they use most, or by name; a session of several kernels is led by its sum."""
    groups: dict[str, list[UseRow]] = {}
    for row in found:
        groups.setdefault(row.session, []).append(row)
    blocks = [_block(parts, sort) for parts in groups.values()]
    blocks.sort(key=lambda block: _rank(block[0], sort))
    return [row for block in blocks for row in block]


def _block(parts: Sequence[UseRow], sort: str) -> list[UseRow]:
    ordered = sorted(parts, key=lambda row: _rank(row, sort))
    return [*([total(ordered)] if len(ordered) > 1 else []), *ordered]


def _rank(row: UseRow, sort: str) -> tuple[float, str, str]:
    """Most first, then by name; what is not known comes last."""
    values: Mapping[str, float | None] = {
        "cpu": row.cpu,
        "memory": row.memory,
        "network": _sum((row.network_in, row.network_out)),
        "gpu": row.gpu,
    }
    value = values.get(sort)
    return (-value if value is not None else (0.0 if sort == "name" else 1.0)), row.session, row.kernel


def total(parts: Sequence[UseRow]) -> UseRow:
    """A session's kernels together; GPU use is the mean over all devices."""
    nodes = {row.node for row in parts}
    weighted = [(row.gpu * row.gpus, row.gpus) for row in parts if row.gpu is not None]
    devices = sum(count for _, count in weighted)
    limits = [row.limit for row in parts]
    return replace(
        parts[0],
        kernel="",
        node=nodes.pop() if len(nodes) == 1 else f"{len(nodes)} nodes",
        cpu=_sum(row.cpu for row in parts),
        memory=_sum(row.memory for row in parts),
        limit=None if None in limits else _sum(limits),
        network_in=_sum(row.network_in for row in parts),
        network_out=_sum(row.network_out for row in parts),
        pids=_sum(row.pids for row in parts),
        gpu=sum(busy for busy, _ in weighted) / devices if devices else None,
        gpu_memory=_sum(row.gpu_memory for row in parts),
        gpus=sum(row.gpus for row in parts),
    )


def _sum(values: Iterable[float | int | None]) -> int | None:
    """Of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None  # type: ignore[return-value]


def cells(row: UseRow) -> list[str]:
    """The row as a line of a table."""
    return [
        short(row.session),
        clean(row.kernel) or "all",
        clean(row.node),
        _percent(row.cpu),
        "" if row.memory is None else size(row.memory),
        "" if row.limit is None else size(row.limit),
        _speed(row.network_in),
        _speed(row.network_out),
        "" if row.pids is None else str(row.pids),
        _percent(row.gpu),
        "" if row.gpu_memory is None else size(row.gpu_memory),
    ]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _speed(value: float | None) -> str:
    return "" if value is None else f"{size(round(value))}/s"


def as_json(row: UseRow) -> Mapping[str, object]:
    """One kernel of `bai top --format json`."""
    return {
        "session": row.session,
        "kernel": row.kernel,
        "node": row.node,
        "cpuPercent": _rounded(row.cpu),
        "memory": row.memory,
        "memoryLimit": row.limit,
        "networkInPerSecond": _rounded(row.network_in),
        "networkOutPerSecond": _rounded(row.network_out),
        "pids": row.pids,
        "gpus": row.gpus,
        "gpuPercent": _rounded(row.gpu),
        "gpuMemory": row.gpu_memory,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
