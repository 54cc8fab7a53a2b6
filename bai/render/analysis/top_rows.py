"""What kernels use, as rows: rates from two samples of their counters. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bai.render.humanize import clean, short_name, size

if TYPE_CHECKING:
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
class UsageRow:
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


def usage_rows(
    before: Mapping[str, Usage], after: Mapping[str, Usage], labels: Mapping[str, Labels]
) -> list[UsageRow]:
    """One row per kernel of `labels` (by kernel id) that was measured now."""
    return [_usage_row(before.get(name), use, labels[name]) for name, use in after.items() if name in labels]


def _usage_row(before: Usage | None, now: Usage, labels: Labels) -> UsageRow:
    seconds = (now.at - before.at).total_seconds() if before else 0.0

    def rate(counter: Callable[[Usage], float | None]) -> float | None:
        """None without two samples, and when the counter began anew in between."""
        was, is_ = counter(before) if before else None, counter(now)
        if was is None or is_ is None or seconds <= 0 or is_ < was:
            return None
        return (is_ - was) / seconds

    cpu = rate(lambda use: use.cpu_seconds)
    busy = [gpu.busy for gpu in now.gpus.values() if gpu.busy is not None]
    return UsageRow(
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
        gpu_memory=_sum_known(gpu.memory for gpu in now.gpus.values()),
        gpus=len(now.gpus),
    )


def sort_by_session(found: Iterable[UsageRow], sort: str) -> list[UsageRow]:
    """Sessions by what they use most, or by name; a session of several kernels is led by its sum."""
    groups: dict[str, list[UsageRow]] = {}
    for row in found:
        groups.setdefault(row.session, []).append(row)
    blocks = [_session_block(parts, sort) for parts in groups.values()]
    blocks.sort(key=lambda block: _sort_key(block[0], sort))
    return [row for block in blocks for row in block]


def _session_block(parts: Sequence[UsageRow], sort: str) -> list[UsageRow]:
    ordered = sorted(parts, key=lambda row: _sort_key(row, sort))
    return [*([sum_rows(ordered)] if len(ordered) > 1 else []), *ordered]


def _sort_key(row: UsageRow, sort: str) -> tuple[float, str, str]:
    """Most first, then by name; what is not known comes last."""
    values: Mapping[str, float | None] = {
        "cpu": row.cpu,
        "memory": row.memory,
        "network": _sum_known((row.network_in, row.network_out)),
        "gpu": row.gpu,
    }
    value = values.get(sort)
    return (-value if value is not None else (0.0 if sort == "name" else 1.0)), row.session, row.kernel


def sum_rows(parts: Sequence[UsageRow]) -> UsageRow:
    """A session's kernels together; GPU use is the mean over all devices."""
    nodes = {row.node for row in parts}
    weighted = [(row.gpu * row.gpus, row.gpus) for row in parts if row.gpu is not None]
    devices = sum(count for _, count in weighted)
    limits = [row.limit for row in parts]
    return replace(
        parts[0],
        kernel="",
        node=nodes.pop() if len(nodes) == 1 else f"{len(nodes)} nodes",
        cpu=_sum_known(row.cpu for row in parts),
        memory=_sum_known(row.memory for row in parts),
        limit=None if None in limits else _sum_known(limits),
        network_in=_sum_known(row.network_in for row in parts),
        network_out=_sum_known(row.network_out for row in parts),
        pids=_sum_known(row.pids for row in parts),
        gpu=sum(busy for busy, _ in weighted) / devices if devices else None,
        gpu_memory=_sum_known(row.gpu_memory for row in parts),
        gpus=sum(row.gpus for row in parts),
    )


def _sum_known(values: Iterable[float | int | None]) -> int | None:
    """Of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None  # type: ignore[return-value]


def usage_cells(row: UsageRow) -> list[str]:
    """The row as a line of a table."""
    return [
        short_name(row.session),
        clean(row.kernel) or "all",
        clean(row.node),
        _percent(row.cpu),
        "" if row.memory is None else size(row.memory),
        "" if row.limit is None else size(row.limit),
        _rate(row.network_in),
        _rate(row.network_out),
        "" if row.pids is None else str(row.pids),
        _percent(row.gpu),
        "" if row.gpu_memory is None else size(row.gpu_memory),
    ]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{size(round(value))}/s"


def usage_json(row: UsageRow) -> Mapping[str, object]:
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
