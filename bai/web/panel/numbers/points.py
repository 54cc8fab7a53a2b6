"""Rows of figures as points of a scale: what passes told in each, all resource groups together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bai.web.panel.numbers.ranges import Scale
from reconciler.values.figures.recorded import MINUTE, FigureRow, add_rows

HELD = 600.0
"""Seconds for which what a pass told stands, where passes come less often than points."""


@dataclass(frozen=True, slots=True)
class Point:
    """`figures`: of the cluster and of all groups together, by key. `running` and `waiting`: sessions by
    group."""

    figures: Mapping[str, float]
    running: Mapping[str, float]
    waiting: Mapping[str, float]


@dataclass(slots=True)
class _Gathered:
    rows: dict[str, FigureRow] = field(default_factory=dict)

    def add(self, row: FigureRow) -> None:
        before = self.rows.get(row.group)
        self.rows[row.group] = row if before is None else add_rows(before, row)

    def point(self) -> Point:
        figures: dict[str, float] = {}
        for row in self.rows.values():
            for key in row.sums:
                figures[key] = _together(key, figures.get(key), row.mean(key))
        running, waiting = (
            {group: row.mean(key) for group, row in self.rows.items() if group}
            for key in ("sessions_running", "queue_length")
        )
        return Point(figures, running, waiting)


def points_of(rows: Iterable[FigureRow], scale: Scale, now: float) -> list[Point | None]:
    """One for each step of the scale, the last one that of `now`; None where nothing is known."""
    begin = scale.begin(now)
    gathered: dict[int, _Gathered] = {}
    for row in rows:
        at = int((row.at - begin) // scale.step)
        if 0 <= at < scale.count:
            gathered.setdefault(at, _Gathered()).add(row)
    found = [gathered[at].point() if at in gathered else None for at in range(scale.count)]
    return _held(found, int(HELD // scale.step)) if scale.length == MINUTE else found


def _held(found: list[Point | None], most: int) -> list[Point | None]:
    """With what was told last in place of nothing, for at most so many steps, and not after the last one."""
    last, age = None, 0
    known = max((at for at, point in enumerate(found) if point is not None), default=-1)
    for at, point in enumerate(found[: known + 1]):
        if point is not None:
            last, age = point, 0
        elif age < most:
            age += 1
            found[at] = last
    return found


def _together(key: str, one: float | None, other: float) -> float:
    if one is None:
        return other
    return max(one, other) if key.startswith("queue_oldest_seconds/") else one + other
