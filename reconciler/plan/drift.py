"""What was found different from what was decided: limits read back from the machine, kernels that are gone
or left over. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from planner.model.types import KernelPlacement
from providers.base import Capabilities, Limit, Observed
from reconciler.values.plan import Drift
from reconciler.values.session_phase import ENDED, LIVE
from reconciler.values.state import Existing
from schemas.hardware.cpuset import format_cpus
from schemas.values.once_per_value import last_per_value, once_per_value
from schemas.values.quantities import format_memory

_PAGE = 65_536
"""Kernels round memory limits to pages, of at most 64 KiB."""


@last_per_value
def session_drifts(existing: Existing, capabilities: Capabilities | None) -> tuple[Drift, ...]:
    """All drifts of one session, in the order of its kernels."""
    if existing.recorded.phase == "TERMINATING":
        return ()
    found = list(limit_drifts(existing, capabilities))
    if existing.phase not in ENDED and existing.missing and existing.recorded.phase == "RUNNING":
        found += [Drift(existing.id, existing.reason or "is gone", kernel) for kernel in existing.missing]
    found += [
        Drift(existing.id, "is left over from another generation", kernel.id) for kernel in existing.strays
    ]
    if existing.adopted:
        found.append(Drift(existing.id, "runs, but the store had no record of it"))
    return tuple(found)


def limit_drifts(existing: Existing, capabilities: Capabilities | None) -> Iterator[Drift]:
    """Limits of live kernels that are not what was decided, as far as the provider enforces them at all."""
    limits = capabilities.limits if capabilities else frozenset()
    return (drift for limit, drift in _drifts_by_limit(existing) if limit in limits)


@once_per_value
def _drifts_by_limit(existing: Existing) -> tuple[tuple[Limit, Drift], ...]:
    placement = existing.recorded.placement
    placed = {part.kernel: part for part in placement.kernels} if placement else {}
    found = []
    for kernel in existing.kernels:
        part = placed.get(kernel.labels.kernel)
        if part is not None and kernel.state in LIVE:
            found += [
                (limit, Drift(existing.id, what, kernel.id)) for limit, what in _wrong_limits(kernel, part)
            ]
    return tuple(found)


def _wrong_limits(kernel: Observed, part: KernelPlacement) -> Iterator[tuple[Limit, str]]:
    if part.cpus and kernel.cpus and kernel.cpus != part.cpus:
        yield Limit.CPUSET, f"runs on CPUs {format_cpus(kernel.cpus)} instead of {format_cpus(part.cpus)}"
    nodes = part.memory_nodes
    if nodes and kernel.memory_nodes and kernel.memory_nodes != nodes:
        takes = format_cpus(kernel.memory_nodes)
        yield Limit.MEMSET, f"takes memory of NUMA nodes {takes} instead of {format_cpus(nodes)}"
    if part.memory and kernel.memory and abs(kernel.memory - part.memory) > _PAGE:
        may = format_memory(kernel.memory)
        yield Limit.MEMORY, f"may use {may} of memory instead of {format_memory(part.memory)}"
