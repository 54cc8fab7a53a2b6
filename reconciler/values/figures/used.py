"""What of what sessions hold is really used, where somebody measures it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reconciler.values.usage.allocations import is_held

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement
    from reconciler.values.records import Sample
    from reconciler.values.state import Actual

LONGEST = 1200.0
"""Seconds for which a measurement counts as what is used now."""
_Amounts = dict[tuple[str, str], tuple[float, float]]


def used_by_group(actual: Actual, now: float) -> Mapping[tuple[str, str], tuple[float, float]]:
    """Group and `cpu` or `gpu` → what containers hold that were measured, and what they used of it between
    their last two measurements; in thousandths. GPUs that are shared are left out: nobody knows whose work
    they do."""
    found: _Amounts = {}
    if not actual.samples:
        return found
    for item in actual.existing.values():
        record = item.recorded
        if record.placement is None or not is_held(record):
            continue
        parts = {part.kernel: part for part in record.placement.kernels}
        for kernel in item.kernels:
            samples, part = actual.samples.get(kernel.id, ()), parts.get(kernel.labels.kernel)
            if part is not None and len(samples) > 1 and now - LONGEST <= samples[-1].at <= now:
                _add(found, record.placement.group, part, samples[-2], samples[-1])
    return found


def _add(found: _Amounts, group: str, part: KernelPlacement, before: Sample, last: Sample) -> None:
    seconds = last.at - before.at
    if seconds > 0 and before.total.cpu is not None and last.total.cpu is not None and part.cpu_milli:
        used = 1000 * max(0.0, last.total.cpu - before.total.cpu) / seconds
        _put(found, (group, "cpu"), part.cpu_milli, used)
    whole = sum(grant.milli for grant in part.devices)
    measured = last.total.gpu_measured - before.total.gpu_measured
    if measured > 0 and whole and all(grant.milli % 1000 == 0 for grant in part.devices):
        busy = max(0.0, last.total.gpu_busy - before.total.gpu_busy)
        _put(found, (group, "gpu"), whole, whole * busy / measured)


def _put(found: _Amounts, key: tuple[str, str], held: float, used: float) -> None:
    before = found.get(key, (0.0, 0.0))
    found[key] = (before[0] + held, before[1] + used)
