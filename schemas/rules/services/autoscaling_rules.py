"""Whether what an autoscaler is told leads anywhere, by the service's document alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schemas.problems.issues import Issue, Loc

if TYPE_CHECKING:
    from schemas.kinds.parts.autoscaling import Autoscaling

AT: Loc = ("spec", "autoscaling")
OF_REQUESTS = {"in_flight": "inFlight", "requests_per_second": "requestsPerSecond", "latency": "latency"}
_OF_REPLICAS = {"latency": "latency", "gpu_utilization": "gpuUtilization"}
"""What tells nothing where there is no replica."""
_MEASURES: Mapping[str, str] = {**OF_REQUESTS, **_OF_REPLICAS, "prometheus": "prometheus"}
_MIDNIGHT = "00:00"


def autoscaling_rules(service: Any) -> Iterator[Issue]:
    """`replicas` is what a scaled service begins with: written down outside of all its bounds
    it is an error, as it could only be a mistake; left out, it is taken into the bounds."""
    rules: Autoscaling | None = service.spec.autoscaling
    if rules is None:
        return
    named = [name for name in _MEASURES if getattr(rules, name) is not None]
    if not named and not rules.schedule:
        message = "it names no measure, and no hours: nothing would ever be changed"
        hint = "name inFlight, requestsPerSecond, latency, gpuUtilization, prometheus or a schedule"
        yield Issue(AT, message, hint, "BAI-V034")
    least, most = _outer_bounds(rules)
    if "replicas" in service.spec.model_fields_set and not least <= service.spec.replicas <= most:
        message = (
            f"replicas: {service.spec.replicas} is outside of what autoscaling allows: {least} to {most}"
        )
        hint = "it is what the service begins with: write one of these, or leave it out"
        yield Issue(("spec", "replicas"), message, hint, "BAI-V034")
    yield from _zero_rules(rules, named)
    for index, each in enumerate(rules.schedule):
        if each.since == each.until != _MIDNIGHT:
            message = f"from {each.since} to {each.until} is no time, or a whole day"
            hint = f"a whole day is from {_MIDNIGHT} to {_MIDNIGHT}: leave out both"
            yield Issue((*AT, "schedule", index, "until"), message, hint, "BAI-V034")


def _zero_rules(rules: Autoscaling, named: list[str]) -> Iterator[Issue]:
    """Where no replica is left, only what is asked of the service as a whole brings one back."""
    if not named or any(name not in _OF_REPLICAS for name in named):
        return
    told = " and ".join(_OF_REPLICAS[name] for name in named)
    message = f"with no replica left, {told} cannot tell that one is needed: it would never come back"
    hint = "write min: 1, or add inFlight, requestsPerSecond or prometheus"
    places: list[tuple[Loc, int]] = [((*AT, "min"), rules.min)]
    places += [((*AT, "schedule", index, "min"), each.min) for index, each in enumerate(rules.schedule)]
    for at, least in places:
        if least == 0:
            yield Issue(at, message, hint, "BAI-V034")


def _outer_bounds(rules: Autoscaling) -> tuple[int, int]:
    """Whatever the hour is."""
    return (
        min([rules.min, *(each.min for each in rules.schedule)]),
        max([rules.max, *(each.max for each in rules.schedule)]),
    )
