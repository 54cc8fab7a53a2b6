"""How far rollouts of services are, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, join_limited
from bai.render.plan.placements import kernel_cores, kernel_devices, kernel_memory

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement
    from reconciler.values.plan import Plan
    from reconciler.values.services.status import HeldStatus, ServiceStatus

STYLES = {"complete": "green", "progressing": "cyan", "paused": "yellow", "failed": "red", "split": "magenta"}
"""By the phase of a service."""


@dataclass(frozen=True, slots=True)
class RolloutLine:
    """`Service/team/chat`, and `3f9c2a1b → 9d01aa42: 2 of 4 updated, 4 ready` with why it is not further."""

    service: str
    text: str
    style: str


def service_rollouts(plan: Plan) -> list[RolloutLine]:
    """Of the services that are not complete, have another number of replicas than their documents say, or
    places held for more."""
    told = (each for each in plan.services if each.phase != "complete" or each.scale or each.headroom)
    return [rollout_line(each) for each in told]


def rollout_line(status: ServiceStatus) -> RolloutLine:
    """Of one service, whatever its phase."""
    parts = [progress_words(status), *_tail(status)]
    text = f"{generation_words(status)}: {'; '.join(parts)}"
    return RolloutLine(clean(status.service), text, STYLES.get(status.phase, ""))


def generation_words(status: ServiceStatus) -> str:
    """`3f9c2a1b → 9d01aa42`: the last one that was complete, and where it goes."""
    names = [status.stable, status.target] if status.stable else [status.target]
    return " → ".join(clean(name) for name in dict.fromkeys(names))


def progress_words(status: ServiceStatus) -> str:
    """`2 of 4 updated, 4 ready`."""
    return f"{updated_count(status)} of {status.wanted} updated, {ready_count(status)} ready"


def updated_count(status: ServiceStatus) -> int:
    """Replicas of the generation that the service goes to, those that go or have ended left out."""
    gone = ("leaving", "ended")
    return sum(each.generation == status.target and each.phase not in gone for each in status.replicas)


def ready_count(status: ServiceStatus) -> int:
    return status.count("ready")


def phase_words(status: ServiceStatus) -> str:
    """`progressing: waits for room`."""
    return f"{status.phase}: {clean(status.why)}" if status.why else status.phase


def _tail(status: ServiceStatus) -> Iterator[str]:
    if status.phase in ("paused", "failed", "split"):
        yield phase_words(status)
    elif status.why:
        yield clean(status.why)
    if status.scale:
        yield clean(status.scale)
    if status.headroom:
        yield headroom_words(status)
    yield from _waits(each.why for each in status.replicas if each.phase == "waiting" and each.why)


def headroom_words(status: ServiceStatus) -> str:
    """`1 of 2 places held for more, on n2 (CPU 4, 1GiB on numa1, GPU-n2-1; lent to Session/p/job): no room`;
    empty where none are to be held."""
    if not status.headroom:
        return ""
    places = ", ".join(held_words(each) for each in status.held)
    text = f"{len(status.held)} of {status.headroom} places held for more{', ' if places else ''}{places}"
    return f"{text}; no more: {clean(status.unheld)}" if status.unheld else text


def held_words(place: HeldStatus) -> str:
    """`on n2 (CPU 4, 1GiB on numa1, GPU-n2-1)`, of each container."""
    parts = "; ".join(
        f"on {clean(kernel.node)} ({_kernel_words(kernel)})" for kernel in place.placement.kernels
    )
    return f"{parts}, lent to {join_limited(map(clean, place.lent), 3)}" if place.lent else parts


def _kernel_words(kernel: KernelPlacement) -> str:
    cores = f"CPU {kernel_cores(kernel)}" if kernel.cpus else kernel_cores(kernel)
    parts = (cores, kernel_memory(kernel), kernel_devices(kernel, None))
    return ", ".join(part for part in parts if part != "-")


def _waits(reasons: Iterable[str]) -> Iterator[str]:
    """What the first ones wait for."""
    first = next(iter(dict.fromkeys(reasons)), "")
    if first:
        yield f"waits: {clean(first)}"
