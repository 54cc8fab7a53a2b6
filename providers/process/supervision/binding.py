"""A running kernel's processes, and the limits that they are bound to. Cheap imports only."""

from __future__ import annotations

import contextlib
import os

from providers.process.linux import cgroup, procfs
from providers.process.supervision import shared_cores

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.base import KernelSpec
    from providers.process.supervision.records import KernelRecord, KernelRoot

LISTINGS = 16
"""How often processes are listed at most: a kernel that forks for ever and binds itself otherwise, which no
affinity keeps it from, holds nobody up."""


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
    bind_kernel(record.groups, _supervisor(record), limits)


def bind_kernel(groups: list[cgroup.Group], supervisor: int, limits: cgroup.Limits) -> None:
    """Hold the processes in these groups, or below this supervisor where none binds cores. Raises OSError."""
    cgroup.limit(groups, limits)
    bound = any("cpuset" in group["controllers"] for group in groups)
    cpus = limits["cpus"] or limits["pool"]
    if cpus and not bound:
        bind_all(lambda: _processes(groups, supervisor), cpus)


def bind_all(processes: Callable[[], set[int]], cpus: list[int]) -> None:
    """Bind all that `processes` lists. What one of them forks before its turn has the cores of before and is
    in no list yet: so they are listed until nobody is new."""
    bound: set[int] = set()
    for _ in range(LISTINGS):
        new = processes() - bound
        if not new:
            return
        for pid in new:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(pid, cpus)
        bound |= new


def kernel_processes(record: KernelRecord) -> set[int]:
    """Numbers of its processes, the supervisor's other children among them where it has no group."""
    return _processes(record.groups, _supervisor(record))


def _supervisor(record: KernelRecord) -> int:
    return int(record.state.get("supervisor") or 0)


def _processes(groups: list[cgroup.Group], supervisor: int) -> set[int]:
    return cgroup.members(groups) | set(procfs.descendants(supervisor) if supervisor else ())
