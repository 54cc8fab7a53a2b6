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
from schemas.values.quantities import format_memory

_PAGE = 65_536
"""Kernels round memory limits to pages, of at most 64 KiB."""


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
    placed = (
        {part.kernel: part for part in existing.recorded.placement.kernels}
        if existing.recorded.placement
        else {}
    )
    limits = capabilities.limits if capabilities else frozenset()
    for kernel in existing.kernels:
        part = placed.get(kernel.labels.kernel)
        if part is not None and kernel.state in LIVE:
            yield from (Drift(existing.id, what, kernel.id) for what in _wrong_limits(kernel, part, limits))


def _wrong_limits(kernel: Observed, part: KernelPlacement, limits: frozenset[Limit]) -> Iterator[str]:
    if Limit.CPUSET in limits and part.cpus and kernel.cpus and kernel.cpus != part.cpus:
        yield f"runs on CPUs {format_cpus(kernel.cpus)} instead of {format_cpus(part.cpus)}"
    nodes = part.memory_nodes
    if Limit.MEMSET in limits and nodes and kernel.memory_nodes and kernel.memory_nodes != nodes:
        yield f"takes memory of NUMA nodes {format_cpus(kernel.memory_nodes)} instead of {format_cpus(nodes)}"
    if Limit.MEMORY in limits and part.memory and kernel.memory and abs(kernel.memory - part.memory) > _PAGE:
        yield f"may use {format_memory(kernel.memory)} of memory instead of {format_memory(part.memory)}"
