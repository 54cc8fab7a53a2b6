"""How much is asked of a service, and how many replicas that needs. Pure.

Source of the formula and its windows: Kubernetes' HorizontalPodAutoscaler: of a measure, as many replicas as
its sum divided by what one can do, rounded up; nothing is changed for a difference of a tenth; within a
window, the most careful of all recommendations counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.kinds.parts.autoscaling import Autoscaling

TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """What is measured of a whole service at a moment; None is not known. `in_flight`: requests, those that
    wait for a replica among them; `latency`: seconds, of the percentile that its document names, `gpu`:
    percent, on average over its replicas; `prometheus`: the query's value."""

    at: float
    in_flight: float | None = None
    requests_per_second: float | None = None
    latency: float | None = None
    gpu: float | None = None
    prometheus: float | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """So many `replicas` a load needs, and why, with its numbers."""

    at: float
    replicas: int
    why: str


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """What the autoscaler holds: `replicas` since `at`, and why."""

    replicas: int
    at: float
    why: str


def recommend(rules: Autoscaling, load: ServiceLoad, replicas: int) -> Recommendation | None:
    """What the load needs, not yet within bounds. `replicas`: as many as there are ready; None where nothing
    is measured, or where fewer would do for what is, and something is not known that should be."""
    found = [(_kept(exact, replicas), why) for exact, why in _needs(rules, load, max(1, replicas))]
    if not found:
        return None
    most, why = max(found, key=lambda each: each[0])
    if most < replicas and _is_blind(rules, load):
        return None
    return Recommendation(load.at, most, why)


def _is_blind(rules: Autoscaling, load: ServiceLoad) -> bool:
    """A latency is not known where nobody asks: that alone is no blindness."""
    pairs = (
        (rules.in_flight, load.in_flight),
        (rules.requests_per_second, load.requests_per_second),
        (rules.gpu_utilization, load.gpu),
        (rules.prometheus, load.prometheus),
    )
    return any(rule is not None and seen is None for rule, seen in pairs)


def _needs(rules: Autoscaling, load: ServiceLoad, replicas: int) -> Iterator[tuple[float, str]]:
    """Replicas that each measure needs, not rounded."""
    if rules.in_flight is not None and load.in_flight is not None:
        noun = "request" if load.in_flight == 1 else "requests"
        text = f"{load.in_flight:g} {noun} in flight, {rules.in_flight} for each replica"
        yield load.in_flight / rules.in_flight, text
    if rules.requests_per_second is not None and load.requests_per_second is not None:
        rate = load.requests_per_second
        text = f"{rate:.3g} requests a second, {rules.requests_per_second} for each replica"
        yield rate / rules.requests_per_second, text
    if rules.latency is not None and load.latency is not None:
        limit = rules.latency.below
        text = f"{rules.latency.percentile}% of requests within {load.latency:.3g} s, {limit} s allowed"
        yield replicas * load.latency / max(limit, 1e-9), text
    if rules.gpu_utilization is not None and load.gpu is not None:
        text = f"GPUs {load.gpu:.0f}% busy, {rules.gpu_utilization}% wanted"
        yield replicas * load.gpu / rules.gpu_utilization, text
    if rules.prometheus is not None and load.prometheus is not None:
        text = f"the query says {load.prometheus:g}, {rules.prometheus.target} for each replica"
        yield load.prometheus / rules.prometheus.target, text


def _kept(exact: float, replicas: int) -> int:
    """A difference of a tenth changes nothing."""
    if replicas and abs(exact / replicas - 1.0) <= TOLERANCE:
        return replicas
    return ceil(exact - 1e-9)


def decide_scale(
    rules: Autoscaling, history: Sequence[Recommendation], held: ScaleDecision, now: float
) -> ScaleDecision:
    """What the autoscaler holds from now on: the same object where that is as it was. `history`: the last
    one newest; older ones than the windows may be left out. For more replicas, the fewest that were
    recommended within `up.window` count; for fewer, the most within `down.window`."""
    if not history:
        return held
    up = min(_within(history, now - rules.up.window), key=lambda each: each.replicas)
    down = max(_within(history, now - rules.down.window), key=lambda each: each.replicas)
    if up.replicas > held.replicas:
        return ScaleDecision(up.replicas, now, up.why)
    long_enough = history[0].at <= now - rules.down.window
    if down.replicas < held.replicas and long_enough:
        return ScaleDecision(down.replicas, now, down.why)
    return held


def _within(history: Sequence[Recommendation], since: float) -> list[Recommendation]:
    """At least the newest."""
    return [each for each in history if each.at >= since] or [history[-1]]
