"""Plots of a cluster over time, as values: what is drawn, and what a table has of it. Pure.

They are the figures of `/metrics`, and the pictures of the Grafana dashboard (`pictures`); shares are made of
them as it makes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bai.web.panel.numbers.pictures import PICTURES, Picture, Unit
from bai.web.panel.numbers.points import Point
from planner.model import slots

MOST_LINES = 8
"""Of a plot; those that are never as large as these are added up."""
REST = "others"
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


def _natural(text: str) -> list[tuple[int, str]]:
    """`2 GPUs` comes before `16 GPUs`."""
    return [(int(each), "") if each.isdigit() else (0, each) for each in re.split(r"(\d+)", text)]


def plots_of(points: Sequence[Point | None]) -> tuple[Plot, ...]:
    """All of them, also those of which nothing is known."""
    return tuple(
        Plot(each.key, each.title, each.about, each.unit, each.whole, tuple(_lines(each, points)))
        for each in PICTURES
    )


def _lines(picture: Picture, points: Sequence[Point | None]) -> Iterator[Line]:
    values_of = VALUES[picture.key]
    found = [None if point is None else values_of(point) for point in points]
    largest: dict[str, float] = {}
    for values in filter(None, found):
        for label, value in values.items():
            largest[label] = max(largest.get(label, 0.0), value)
    shown = sorted(largest, key=lambda label: (-largest[label], label))
    kept = shown if len(shown) <= MOST_LINES else shown[: MOST_LINES - 1]
    for label in sorted(kept, key=_natural):
        yield Line(label, tuple(_value(picture, values, label) for values in found))
    if rest := shown[len(kept) :]:
        yield Line(REST, tuple(_rest(picture, values, rest) for values in found))


def _value(picture: Picture, values: Values | None, label: str) -> float | None:
    """Shares that are not told are unknown, everything else is none."""
    if values is None or (picture.unit == "%" and label not in values):
        return None
    return round(values.get(label, 0.0), 3)


def _rest(picture: Picture, values: Values | None, labels: Sequence[str]) -> float | None:
    if values is None:
        return None
    found = [values.get(label, 0.0) for label in labels]
    return round(max(found) if picture.unit else sum(found), 3)


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
        taken, held, whole = (
            sum(value for key, value in point.figures.items() if key.startswith(name) and is_slot(key))
            for name in ("allocated/", "held/", "capacity/")
        )
        if whole > 0:
            shares[label] = 100 * taken / whole
        if whole > 0 and held > 0:
            shares[f"{label} held"] = 100 * held / whole
    return shares


def _used(point: Point) -> Values:
    shares: dict[str, float] = {}
    for label, slot in (("GPUs", "gpu"), ("cores", "cpu")):
        held = point.figures.get(f"measured/{slot}", 0.0)
        if held > 0:
            shares[label] = 100 * point.figures.get(f"used/{slot}", 0.0) / held
    return shares


def _wrong(point: Point) -> Values:
    words = {"nodes_unreached": "nodes", "drifts": "other than recorded"}
    return {word: point.figures[key] for key, word in words.items() if key in point.figures}


_SLOTS: Mapping[str, Callable[[str], bool]] = {
    "GPUs": lambda key: key.endswith((slots.DEVICE, slots.SHARES)),
    "cores": lambda key: key.endswith(f"/{slots.CPU}"),
    "memory": lambda key: key.endswith(f"/{slots.MEMORY}"),
}
VALUES: Mapping[str, Callable[[Point], Values]] = {
    "utilisation": _allocated,
    "used": _used,
    "running": lambda point: point.running,
    "queue": lambda point: point.waiting,
    "waits": _beginning("queue_oldest_seconds"),
    "reasons": _beginning("queue_reasons"),
    "fits": _beginning("fits"),
    "sessions": _beginning("sessions"),
    "numa": _counted("sessions_by_numa_nodes", "NUMA node", "NUMA nodes"),
    "spread": _counted("sessions_by_nodes", "node", "nodes"),
    "wrong": _wrong,
}
"""Of a point, by label; by the keys of `PICTURES`."""
