"""What a replay says about its policy, in numbers to compare. Means over time weigh each value with how long
it held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.admission.quota import requested_slots
from planner.model import slots
from planner.model.types import SessionRequest
from planner.simulation.values import JobResult, Replay
from schemas.values.naturals import parse_natural

Floats = npt.NDArray[np.float64]

SHORTEST_RUN = 10.0
"""Seconds that a session's run counts as at least in its slowdown (Feitelson and Rudolph, 1998)."""


@dataclass(frozen=True, slots=True)
class WaitStatistics:
    """Waiting times of some sessions, in seconds, over those that started."""

    sessions: int
    started: int
    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    most: float = 0.0
    slowdown: float = 0.0
    """Mean of (wait + run) / run, runs of less than 10 s counted as 10 s; over those that finished."""


@dataclass(frozen=True, slots=True)
class Report:
    """One policy's figures. Shares are from 0 to 1."""

    span: float
    """Seconds from the first arrival to the end."""
    settled: float
    """Seconds from the first arrival to the last start or arrival: from then on things only end."""
    sessions: int
    finished: int
    running: int
    waiting: int
    gave_up: int
    causes: Mapping[str, int]
    utilisation: Mapping[str, float]
    """Mean share allocated up to `settled`: `devices`, `cpu`, `mem`; only of what there is."""
    peak: Mapping[str, float]
    busy: float | None
    """Mean share of devices (of CPU where there are none) allocated while somebody waited; None when nobody
    ever did."""
    waits: WaitStatistics
    by_project: Mapping[str, WaitStatistics]
    by_size: Mapping[str, WaitStatistics]
    longest_queue: int
    fragmentation: float
    """Mean share of all devices, up to `settled`, that was free on nodes of which others were taken."""
    fragmentation_most: float
    largest: float
    """Mean of the largest free block up to `settled`, in devices."""
    placed: int
    one_numa: int
    """Of the sessions that were placed, those with each container on one NUMA node."""
    kept_together: int
    """Of the sessions that were placed, those on as few NUMA nodes as on an empty cluster."""
    finished_per_hour: float
    device_hours: float
    """Allocated, in devices × hours."""
    preemptions: int
    lost_device_hours: float
    """Of runs that were pushed out without a checkpoint."""


def report(replay: Replay) -> Report:
    """The figures of a replay."""
    results, span = replay.results, replay.end - replay.begin
    at: Floats = np.array(replay.samples.at, dtype=np.float64)
    held, counted = np.diff(at), np.diff(np.minimum(at, replay.settled))
    if not counted.sum():
        counted = held
    shares = {name: _shares(values, replay.capacity[name]) for name, values in _series(replay).items()}
    shares = {name: share for name, share in shares.items() if replay.capacity[name]}
    waiting = np.array(replay.samples.waiting, dtype=np.float64)
    main = shares.get("devices", shares.get(slots.CPU, np.zeros(len(waiting))))
    lies = _shares(replay.samples.fragmented, replay.capacity["devices"])
    allocated = float((np.array(replay.samples.devices, dtype=np.float64)[:-1] * held).sum()) / 3_600_000
    placed = [one for one in results if one.started is not None]
    state = [one.state for one in results]
    return Report(
        span=span,
        settled=replay.settled - replay.begin,
        sessions=len(results),
        finished=state.count("finished"),
        running=state.count("running"),
        waiting=state.count("waiting"),
        gave_up=state.count("gave-up"),
        causes=replay.causes,
        utilisation={name: _mean(share, counted) for name, share in shares.items()},
        peak={name: float(share.max(initial=0.0)) for name, share in shares.items()},
        busy=_mean(main, held * (waiting[:-1] > 0)) if (held * (waiting[:-1] > 0)).sum() else None,
        waits=_wait_statistics(results),
        by_project=_waits_by(results, lambda one: one.job.request.project),
        by_size=_waits_by(results, lambda one: size_of(one.job.request)),
        longest_queue=int(waiting.max(initial=0)),
        fragmentation=_mean(lies, counted),
        fragmentation_most=float(lies.max(initial=0.0)),
        largest=_mean(np.array(replay.samples.largest, dtype=np.float64), counted),
        placed=len(placed),
        one_numa=sum(one.numa_nodes <= 1 for one in placed),
        kept_together=sum(one.numa_nodes <= one.fewest for one in placed),
        finished_per_hour=3600 * state.count("finished") / span if span else 0.0,
        device_hours=allocated,
        preemptions=sum(one.evictions for one in results),
        lost_device_hours=sum(one.lost * _milli(one.job.request) for one in results) / 3_600_000,
    )


def size_of(request: SessionRequest) -> str:
    """The size that a session counts to: `no devices`, `part of a GPU`, `1 GPU`, `2 GPUs`, ..."""
    milli = _milli(request)
    if not milli:
        return "no devices"
    slot = next(slot for slot, amount in requested_slots(request).items() if slots.is_device(slot) and amount)
    word = slots.device_word(slots.whole_slot(slot) if slot.endswith(slots.SHARES) else slot)
    return f"part of a {word}" if milli < 1000 else slots.plural(-(-milli // 1000), word)


def _milli(request: SessionRequest) -> int:
    """Devices in milli, all containers together; a share is counted as asked."""
    asked = requested_slots(request)
    return sum(
        amount * (1 if slot.endswith(slots.SHARES) else 1000)
        for slot, amount in asked.items()
        if slots.is_device(slot)
    )


def _series(replay: Replay) -> dict[str, Sequence[int]]:
    samples = replay.samples
    return {"devices": samples.devices, slots.CPU: samples.cpu, slots.MEMORY: samples.memory}


def _shares(values: Sequence[int], capacity: int) -> Floats:
    found: Floats = np.array(values, dtype=np.float64) / max(1, capacity)
    return found


def _mean(values: Floats, weights: Floats) -> float:
    """Mean of all but the last value, each weighed with how long it held."""
    whole = float(weights.sum())
    return float((values[:-1] * weights).sum()) / whole if whole else 0.0


def _waits_by(results: Iterable[JobResult], key: Callable[[JobResult], str]) -> dict[str, WaitStatistics]:
    parts: dict[str, list[JobResult]] = {}
    for one in results:
        parts.setdefault(key(one), []).append(one)
    return {name: _wait_statistics(parts[name]) for name in sorted(parts, key=_natural_order)}


def _natural_order(name: str) -> tuple[int, int, str]:
    number = parse_natural(name.partition(" ")[0])
    return (0, 0, name) if number is None else (1, number, "")


def _wait_statistics(results: Sequence[JobResult]) -> WaitStatistics:
    found: Floats = np.array([one.wait for one in results if one.wait is not None], dtype=np.float64)
    if not len(found):
        return WaitStatistics(len(results), 0)
    # The 95th percentile is a waiting time that occurred: the least that at least 95 % do not exceed.
    return WaitStatistics(
        sessions=len(results),
        started=len(found),
        mean=float(found.mean()),
        median=float(np.percentile(found, 50)),
        p95=float(np.percentile(found, 95, method="inverted_cdf")),
        most=float(found.max()),
        slowdown=_slowdown(results),
    )


def _slowdown(results: Sequence[JobResult]) -> float:
    ended = [one for one in results if one.state == "finished" and one.ended is not None]
    runs = [(one.ended or 0.0) - one.job.arrival for one in ended]
    own = [
        max(SHORTEST_RUN, min(one.job.duration, one.job.request.timeout or one.job.duration)) for one in ended
    ]
    ratios = [max(1.0, whole / run) for whole, run in zip(runs, own, strict=True)]
    return sum(ratios) / len(ratios) if ratios else 0.0


def curve(replay: Replay, values: Sequence[float], span: float, points: int) -> list[tuple[float, float]]:
    """(seconds since the first arrival, mean value of that part of time), `points` equal parts of `span`."""
    at: Floats = np.array(replay.samples.at, dtype=np.float64)
    series: Floats = np.array(values, dtype=np.float64)
    span = min(span, replay.end - replay.begin)
    if span <= 0 or len(at) < 2:
        return []
    total: Floats = np.concatenate(([0.0], np.cumsum(series[:-1] * np.diff(at))))
    edges = np.linspace(replay.begin, replay.begin + span, points + 1)
    reached = np.interp(edges, at, total)
    means = np.diff(reached) / np.diff(edges)
    middles = (edges[:-1] + edges[1:]) / 2 - replay.begin
    return [(float(x), float(y)) for x, y in zip(middles, means, strict=True)]
