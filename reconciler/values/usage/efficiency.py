"""What one start of a session was given, against what it used. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.values.records import Allocation, Consumption

NOT_MEASURED = "nobody measured it"
SHARED = "its GPUs are shared with others, whose work cannot be told apart"
NO_COUNTER = "its provider does not say"


@dataclass(frozen=True, slots=True)
class Ratio:
    """`used` of `given`, in the same unit; where `used` is None, `why` nothing is known."""

    given: float
    used: float | None = None
    why: str = ""

    @property
    def percent(self) -> float | None:
        return 100 * self.used / self.given if self.used is not None and self.given > 0 else None


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Of one start. Times are seconds since the epoch."""

    session: str
    generation: int
    user: str
    began: float
    ended: float
    """For one that goes on: now."""
    measured_until: float | None
    """None: never measured."""
    cores: float
    """As they were last given; `gpus` likewise."""
    gpus: float
    cpu: Ratio
    """Core seconds from its start until it was last measured."""
    memory: Ratio
    """Bytes: what it was given, and the most that was seen in use."""
    gpu: Ratio | None
    """GPU seconds that were measured, and those among them that GPUs were busy; None without GPUs."""


def last_start(found: Iterable[Allocation]) -> tuple[Allocation, ...]:
    """Those of the latest start, in the order of time; empty where there was none."""
    allocations = sorted(found, key=lambda each: (each.began, each.started))
    return tuple(each for each in allocations if each.began == allocations[-1].began)


def efficiency_of(start: tuple[Allocation, ...], used: Consumption) -> Efficiency:
    """`start`: the allocations of one start, at least one; `used`: from its beginning on."""
    last = start[-1]
    until = used.until
    held = sum(
        each.cpu * max(0.0, min(each.ended, until) - each.started) for each in start if until is not None
    )
    why = NOT_MEASURED if until is None else NO_COUNTER
    return Efficiency(
        session=last.session,
        generation=last.generation,
        user=last.user,
        began=last.began,
        ended=last.ended,
        measured_until=until,
        cores=last.cpu / 1000,
        gpus=sum(last.devices.values()) / 1000,
        cpu=_ratio(held / 1000, used.cpu, why),
        memory=_ratio(float(max(each.memory for each in start)), used.memory, why),
        gpu=_gpu_ratio(start, used) if last.devices else None,
    )


def _ratio(given: float, used: float | None, why: str) -> Ratio:
    return Ratio(given, None if used is None else float(used), why if used is None else "")


def _gpu_ratio(start: tuple[Allocation, ...], used: Consumption) -> Ratio:
    """A GPU says how busy it is, not for whom."""
    if any(milli % 1000 for each in start for milli in each.devices.values()):
        return Ratio(0.0, why=SHARED)
    if used.gpu_measured <= 0:
        return Ratio(0.0, why=NOT_MEASURED if used.until is None else "measured less than twice")
    return Ratio(used.gpu_measured, used.gpu_busy)
