"""What one server tells others on the same store of the requests that it hands to replicas. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import exp, log
from typing import Any

_STEP = log(1.05)
"""Latencies are told to a twentieth, so that their number does not grow with that of requests."""
_SHORTEST = 1e-4


@dataclass(frozen=True, slots=True)
class SavedReport:
    """As the store has it: `text` is JSON, `beat` a number that rises with each one of a server."""

    beat: int
    text: str


@dataclass(frozen=True, slots=True)
class Route:
    """One replica that gets a part of the requests: its main container's kernel, and where that really serves
    the ports of its document, where that is elsewhere."""

    kernel: str
    generation: str
    weight: float
    ports: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestCount:
    """Of one service at one server. `latencies`: how many of late took so long; `sample_of` gives them."""

    in_flight: int
    per_second: float
    latencies: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerReport:
    """Of one cluster. `serves`: whether there are services; `draining`: kernels to which nobody begins
    anything; `routes`: by service, of those that lose one; `unready`: kernels that do not answer; `heard`:
    kernels that are others' to drain → how many connections to them there still are here; `requests`: by
    service, of those that are scaled; `leads`: whether the server acts for the cluster."""

    serves: bool = False
    draining: tuple[str, ...] = ()
    routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    unready: tuple[str, ...] = ()
    heard: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[str, RequestCount] = field(default_factory=dict)
    leads: bool = False


def report_text(report: ServerReport) -> str:
    return json.dumps(asdict(report), sort_keys=True, separators=(",", ":"))


def read_report(text: str) -> ServerReport:
    """Raises ValueError for what is none: another version of bai may say it in other words."""
    try:
        return _report(json.loads(text))
    except (TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ValueError("no report of a server") from error


def _report(value: Mapping[str, Any]) -> ServerReport:
    routes = {name: tuple(map(_route, each)) for name, each in value["routes"].items()}
    requests = {
        name: RequestCount(int(one["in_flight"]), float(one["per_second"]), _counts(one["latencies"]))
        for name, one in value["requests"].items()
    }
    heard = {str(kernel): int(count) for kernel, count in value["heard"].items()}
    draining, unready = (tuple(map(str, value[name])) for name in ("draining", "unready"))
    serves, leads = bool(value["serves"]), bool(value["leads"])
    return ServerReport(serves, draining, routes, unready, heard, requests, leads)


def _route(value: Mapping[str, Any]) -> Route:
    return Route(
        str(value["kernel"]), str(value["generation"]), float(value["weight"]), _counts(value["ports"])
    )


def _counts(value: Mapping[str, Any]) -> dict[int, int]:
    return {int(key): int(count) for key, count in value.items()}


def count_latencies(seconds: Iterable[float]) -> dict[int, int]:
    return dict(Counter(round(log(max(each, _SHORTEST)) / _STEP) for each in seconds))


def sample_of(latencies: Mapping[int, int], most: int) -> tuple[float, ...]:
    """Seconds, within a twentieth; the first `most` of them, the longest before others."""
    found: list[float] = []
    for step, count in sorted(latencies.items(), reverse=True):
        found += [exp(step * _STEP)] * min(count, most - len(found))
    return tuple(found)
