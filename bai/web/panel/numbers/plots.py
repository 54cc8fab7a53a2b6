"""Plots of a cluster over time, as values: what is drawn, and what a table has of it. Pure.

They are the figures of `/metrics`, which the Grafana dashboard shows; shares are made of them as it makes
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bai.web.panel.numbers.points import Point
from planner.model import slots

MOST_LINES = 8
"""Of a plot; those that are never as large as these are added up."""
REST = "others"
Unit = Literal["%", "s", ""]
Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Line:
    """None where nothing is known."""

    label: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """`whole`: it is about the cluster, whichever group is chosen."""

    key: str
    title: str
    about: str
    unit: Unit
    whole: bool
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    """`values`: of a point, by label."""

    key: str
    title: str
    about: str
    unit: Unit
    values: Callable[[Point], Values]
    whole: bool = False


def _natural(text: str) -> list[tuple[int, str]]:
    """`2 GPUs` comes before `16 GPUs`."""
    return [(int(each), "") if each.isdigit() else (0, each) for each in re.split(r"(\d+)", text)]


def plots_of(points: Sequence[Point | None]) -> tuple[Plot, ...]:
    """All of them, also those of which nothing is known."""
    return tuple(
        Plot(kind.key, kind.title, kind.about, kind.unit, kind.whole, tuple(_lines(kind, points)))
        for kind in _KINDS
    )


def _lines(kind: _Kind, points: Sequence[Point | None]) -> Iterator[Line]:
    found = [None if point is None else kind.values(point) for point in points]
    largest: dict[str, float] = {}
    for values in filter(None, found):
        for label, value in values.items():
            largest[label] = max(largest.get(label, 0.0), value)
    shown = sorted(largest, key=lambda label: (-largest[label], label))
    kept = shown if len(shown) <= MOST_LINES else shown[: MOST_LINES - 1]
    for label in sorted(kept, key=_natural):
        yield Line(label, tuple(_value(kind, values, label) for values in found))
    if rest := shown[len(kept) :]:
        yield Line(REST, tuple(_rest(kind, values, rest) for values in found))


def _value(kind: _Kind, values: Values | None, label: str) -> float | None:
    """Shares that are not told are unknown, everything else is none."""
    if values is None or (kind.unit == "%" and label not in values):
        return None
    return round(values.get(label, 0.0), 3)


def _rest(kind: _Kind, values: Values | None, labels: Sequence[str]) -> float | None:
    if values is None:
        return None
    found = [values.get(label, 0.0) for label in labels]
    return round(max(found) if kind.unit else sum(found), 3)


def _beginning(name: str) -> Callable[[Point], Values]:
    """Figures of a name, by what they have beside it."""
    start = f"{name}/"

    def values(point: Point) -> Values:
        return {
            key.removeprefix(start): value for key, value in point.figures.items() if key.startswith(start)
        }

    return values


def _counted(name: str, one: str, many: str) -> Callable[[Point], Values]:
    """`1 node`, `2 nodes` in place of numbers."""
    found = _beginning(name)
    return lambda point: {
        f"{key} {one if key == '1' else many}": value for key, value in found(point).items()
    }


def _allocated(point: Point) -> Values:
    shares: dict[str, float] = {}
    for label, is_slot in _SLOTS.items():
        held, whole = (
            sum(value for key, value in point.figures.items() if key.startswith(name) and is_slot(key))
            for name in ("allocated/", "capacity/")
        )
        if whole > 0:
            shares[label] = 100 * held / whole
    return shares


def _used(point: Point) -> Values:
    shares: dict[str, float] = {}
    for label, slot in (("GPUs", "gpu"), ("cores", "cpu")):
        held = point.figures.get(f"measured/{slot}", 0.0)
        if held > 0:
            shares[label] = 100 * point.figures.get(f"used/{slot}", 0.0) / held
    return shares


_SLOTS: Mapping[str, Callable[[str], bool]] = {
    "GPUs": lambda key: key.endswith((slots.DEVICE, slots.SHARES)),
    "cores": lambda key: key.endswith(f"/{slots.CPU}"),
    "memory": lambda key: key.endswith(f"/{slots.MEMORY}"),
}
_KINDS = (
    _Kind("utilisation", "Allocated", "What sessions hold, of what there is.", "%", _allocated),
    _Kind(
        "used", "Used of what is allocated",
        "Of the sessions whose use is measured; GPUs that are shared are not in it.", "%", _used,
    ),
    _Kind("running", "Running", "Sessions that run, by resource group.", "", lambda point: point.running),
    _Kind("queue", "Waiting", "Sessions that wait, by resource group.", "", lambda point: point.waiting),
    _Kind(
        "waits", "Longest wait by reason", "How long who waits longest has waited, for each reason.", "s",
        _beginning("queue_oldest_seconds"),
    ),
    _Kind("reasons", "Why they wait", "Sessions by reason.", "", _beginning("queue_reasons")),
    _Kind(
        "fits", "What still fits", "How many more sessions of a size would fit: fragmentation.", "",
        _beginning("fits"),
    ),
    _Kind("sessions", "Sessions", "By phase.", "", _beginning("sessions"), whole=True),
    _Kind(
        "numa", "Locality", "Sessions by the most NUMA nodes that one of their containers lies on.", "",
        _counted("sessions_by_numa_nodes", "NUMA node", "NUMA nodes"), whole=True,
    ),
    _Kind(
        "spread", "Spread", "Sessions by the nodes that they lie on.", "",
        _counted("sessions_by_nodes", "node", "nodes"), whole=True,
    ),
)  # fmt: skip
