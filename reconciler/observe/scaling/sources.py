"""Where loads of services come from. Values and seams; effects are those of whoever implements them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reconciler.values.documents.service_replicas import replica_of

if TYPE_CHECKING:
    from reconciler.values.state import Actual


@dataclass(frozen=True, slots=True)
class Requests:
    """Of one service just now: `in_flight`, those that wait for a replica among them; how many began in a
    second, lately; `latencies`: seconds until the first byte of those that were answered lately."""

    in_flight: int
    per_second: float
    latencies: tuple[float, ...] = ()


class RequestSource(Protocol):
    """Who hands requests to replicas."""

    def requests(self, service: str) -> Requests:
        """`service`: identity. Called from any thread; never waits."""
        ...


Query = Callable[[str], float | None]
"""What a PromQL query gives; None where nobody answers with one number. May wait for seconds."""


def percentile(values: Iterable[float], percent: int) -> float | None:
    """The smallest of the values that so many percent of them do not exceed; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def gpu_use(actual: Actual) -> Mapping[str, float]:
    """Service → percent that the busiest GPUs of its replicas were busy, on average, by the last samples."""
    found: dict[str, list[float]] = {}
    for existing in actual.existing.values():
        ref = replica_of(existing)
        if ref is None or existing.phase != "RUNNING":
            continue
        for kernel in existing.kernels:
            samples = actual.samples.get(kernel.id, ())
            if samples and samples[-1].gpu is not None:
                found.setdefault(ref.service, []).append(samples[-1].gpu)
    return {service: sum(each) / len(each) for service, each in found.items()}
