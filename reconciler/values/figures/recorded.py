"""Figures as they are kept over time: a row for each minute and resource group, and added up to hours. Pure.

A row has sums, and how many passes they are of: means are sums by counts, and nothing is lost when rows are
added up. What lasts longest is kept as the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.values.figures.pass_figures import KINDS, Figure

MINUTE, HOUR = 60, 3600
"""Lengths of rows, in seconds."""
KEPT_MINUTES = 3 * 86400.0
"""Seconds for which rows of minutes are kept."""
KEPT_HOURS = 2 * 366 * 86400.0
"""The same of hours."""
_LARGEST = frozenset({"bai_queue_oldest_seconds"})
"""Of which the largest is kept and not the sum."""
_PREFIX = "bai_"


@dataclass(frozen=True, slots=True)
class FigureRow:
    """What `count` passes told of a resource group (empty: of the cluster) in `length` seconds from `at`.
    `sums`: by key, `allocated/cpu`."""

    group: str
    length: int
    at: float
    count: int
    sums: Mapping[str, float]

    def mean(self, key: str) -> float:
        """What a pass told; 0 for what none did. Of what is kept as the largest: that."""
        found = self.sums.get(key, 0.0)
        return found if _is_largest(key) else found / self.count


def key_of(name: str, label: str = "") -> str:
    """Of a figure beside its group: short, as it is written with each row."""
    short = name.removeprefix(_PREFIX)
    return f"{short}/{label}" if label else short


def label_of(key: str) -> str:
    """What a key has beside the figure's name."""
    return key.partition("/")[2]


def figure_rows(figures: Iterable[Figure], now: float) -> tuple[FigureRow, ...]:
    """Of one pass that ended at `now`: its minute's rows, by group; the cluster's own first."""
    found: dict[str, dict[str, float]] = {"": {}}
    for figure in figures:
        by_group = KINDS[figure.name].by_group
        group = figure.labels[0] if by_group else ""
        label = figure.labels[-1] if len(figure.labels) > by_group else ""
        found.setdefault(group, {})[key_of(figure.name, label)] = figure.value
    at = now // MINUTE * MINUTE
    return tuple(FigureRow(group, MINUTE, at, 1, sums) for group, sums in sorted(found.items()))


def as_hour(row: FigureRow) -> FigureRow:
    """The same as a part of its hour."""
    return replace(row, length=HOUR, at=row.at // HOUR * HOUR)


def add_rows(one: FigureRow, other: FigureRow) -> FigureRow:
    """Both together, of the same group and time."""
    sums = dict(one.sums)
    for key, value in other.sums.items():
        before = sums.get(key, 0.0)
        sums[key] = max(before, value) if _is_largest(key) else before + value
    return replace(one, count=one.count + other.count, sums=sums)


def _is_largest(key: str) -> bool:
    return _PREFIX + key.partition("/")[0] in _LARGEST
