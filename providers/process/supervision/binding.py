"""A running kernel's processes, and the limits that they are bound to."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from providers.process.linux import cgroup, procfs
from providers.process.supervision import shared_cores

if TYPE_CHECKING:
    from providers.base import KernelSpec
    from providers.process.supervision.records import KernelRecord, KernelRoot


def bind_limits(root: KernelRoot, record: KernelRecord, spec: KernelSpec) -> None:
    """Hold a kernel that runs to the spec's cores, memory and processes. Raises OSError."""
    limits: cgroup.Limits = {
        "cpus": list(spec.cpus),
        "memory_nodes": list(spec.memory_nodes),
        "memory": spec.memory,
        "pids": spec.pids,
        "cpu_milli": spec.cpu_milli,
        "pool": shared_cores.read_shared_cores(str(root.path)),
    }
    cgroup.limit(record.groups, limits)
    bound = any("cpuset" in group["controllers"] for group in record.groups)
    cpus = limits["cpus"] or limits["pool"]
    if cpus and not bound:
        for pid in kernel_processes(record):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(pid, cpus)


def kernel_processes(record: KernelRecord) -> set[int]:
    """Numbers of its processes, the supervisor's other children among them where it has no group."""
    keeper = int(record.state.get("supervisor") or 0)
    return cgroup.members(record.groups) | set(procfs.descendants(keeper) if keeper else ())
