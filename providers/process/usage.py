"""What a kernel uses: from its control groups, and from /proc where a group does not say."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from providers.abilities import GpuUsage, Usage
from providers.process.linux import cgroup, procfs
from providers.process.supervision import observe

if TYPE_CHECKING:
    from providers.process.supervision.records import KernelRecord

TICKS = os.sysconf("SC_CLK_TCK")


def measure_kernel(record: KernelRecord, gpus: Mapping[str, GpuUsage]) -> Usage | None:
    """None when the kernel does not run. Network is not known: it is shared with the machine."""
    if not record.runs or observe.main_pid(record.state) is None:
        return None
    processes = _processes(record)
    return Usage(
        kernel=record.id,
        at=datetime.now(UTC),
        cpu_seconds=_cpu_seconds(record, processes),
        memory=_used_memory(record.groups, processes),
        memory_limit=record.spec.memory or None,
        pids=_count_pids(record.groups, processes),
        gpus={device: gpus[device] for device in record.spec.devices if device in gpus},
    )


def _processes(record: KernelRecord) -> set[int]:
    keeper = int(record.state.get("supervisor") or 0)
    return cgroup.members(record.groups) or set(procfs.descendants(keeper) if keeper else ())


def _group_of(groups: list[cgroup.Group], controller: str) -> cgroup.Group | None:
    return next((group for group in groups if controller in group["controllers"]), None)


def _read_group_file(group: cgroup.Group, file: str) -> str:
    """Empty where the file is missing."""
    try:
        return cgroup.read(os.path.join(group["path"], file))
    except OSError:
        return ""


def _parse_fields(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _cpu_seconds(record: KernelRecord, processes: set[int]) -> float:
    """Seconds. Version 2 always counts; version 1 does in `cpuacct`, usually one with `cpu`."""
    for group in record.groups:
        if group["version"] == 1 and (text := _read_group_file(group, "cpuacct.usage")):
            return int(text) / 1e9
        used = _parse_fields(_read_group_file(group, "cpu.stat")).get("usage_usec")
        if group["version"] == 2 and used is not None:
            return used / 1e6
    keeper = int(record.state.get("supervisor") or 0)
    own = [procfs.cpu_ticks(pid) for pid in processes]
    ended = procfs.cpu_ticks(keeper)[1] if keeper else 0
    return (sum(map(sum, own)) + ended) / TICKS


def _used_memory(groups: list[cgroup.Group], processes: set[int]) -> int | None:
    group = _group_of(groups, "memory")
    if group is None:
        return sum(map(_resident, processes))
    files = (
        ("memory.current", "inactive_file")
        if group["version"] == 2
        else (
            "memory.usage_in_bytes",
            "total_inactive_file",
        )
    )
    used = _read_group_file(group, files[0])
    if not used.isdigit():
        return None
    return max(0, int(used) - _parse_fields(_read_group_file(group, "memory.stat")).get(files[1], 0))


def _resident(pid: int) -> int:
    """Bytes, what is shared counted in part where the system tells."""
    for file, name in (("smaps_rollup", "Pss"), ("status", "VmRSS")):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/{file}") as stream:
            for line in stream:
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024
    return 0


def _count_pids(groups: list[cgroup.Group], processes: set[int]) -> int:
    """Threads count, as they do for the limit."""
    group = _group_of(groups, "pids")
    text = _read_group_file(group, "pids.current") if group else ""
    if text.isdigit():
        return int(text)
    return sum(int(procfs.status(pid).get("Threads") or 0) for pid in processes)


def gpu_ids(records: list[KernelRecord]) -> Iterator[str]:
    """GPUs that any of these kernels was given."""
    for record in records:
        yield from (device for device in record.spec.devices if not device.startswith("/"))
