"""What a kernel is known to have used in all, sample by sample, and kernels together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.values.records import Consumption

MAX_GAP = 1200.0
"""Seconds between two looks at a GPU for which the second one stands."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One look: seconds of CPU since the kernel's start, bytes now, and percent by GPU, None where one does
    not say."""

    at: float
    cpu: float | None
    memory: int | None
    gpus: tuple[float | None, ...] = ()


def consumed(before: Consumption, last_cpu: float | None, seen: Measurement) -> Consumption:
    """What is known after one more look; `last_cpu`: what the counter said at the look before."""
    busy, measured = before.gpu_busy, before.gpu_measured
    gap = seen.at - before.until if before.until is not None else None
    known = [each for each in seen.gpus if each is not None]
    if gap is not None and 0 < gap <= MAX_GAP and known and len(known) == len(seen.gpus):
        busy += gap * sum(known) / 100
        measured += gap * len(known)
    memory = [each for each in (before.memory, seen.memory) if each is not None]
    return Consumption(
        cpu=_added_cpu(before.cpu, last_cpu, seen.cpu),
        memory=max(memory, default=None),
        gpu_busy=busy,
        gpu_measured=measured,
        until=seen.at,
    )


def _added_cpu(total: float | None, last: float | None, now: float | None) -> float | None:
    """A counter that went back began anew with a restart: what it says now was used since."""
    if now is None or total is None:
        return now if total is None else total
    return total + (now - last if last is not None and now >= last else now)


def add_consumptions(found: Iterable[Consumption]) -> Consumption:
    """Several kernels together: what one of them does not know is not known of all."""
    parts = list(found)
    cpu = [each.cpu for each in parts if each.cpu is not None]
    memory = [each.memory for each in parts if each.memory is not None]
    until = [each.until for each in parts if each.until is not None]
    return Consumption(
        cpu=sum(cpu) if parts and len(cpu) == len(parts) else None,
        memory=sum(memory) if parts and len(memory) == len(parts) else None,
        gpu_busy=sum(each.gpu_busy for each in parts),
        gpu_measured=sum(each.gpu_measured for each in parts),
        until=min(until) if parts and len(until) == len(parts) else None,
    )
