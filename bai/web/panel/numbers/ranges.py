"""Over how long a plot goes, and what its points are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reconciler.values.figures.recorded import HOUR, MINUTE

RangeName = Literal["6h", "24h", "7d", "30d"]


@dataclass(frozen=True, slots=True)
class Scale:
    """`count` points of `step` seconds each, made of rows of `length` seconds."""

    step: int
    count: int
    length: int

    def begin(self, now: float) -> float:
        """Of the first point; `now` lies in the last one."""
        return now // self.step * self.step - (self.count - 1) * self.step


@dataclass(frozen=True, slots=True)
class Range:
    """`plot`: fine, for a picture. `table`: coarse, for who reads it."""

    label: str
    plot: Scale
    table: Scale


RANGES: Mapping[RangeName, Range] = {
    "6h": Range("6 hours", Scale(60, 361, MINUTE), Scale(900, 25, MINUTE)),
    "24h": Range("24 hours", Scale(180, 481, MINUTE), Scale(HOUR, 25, HOUR)),
    "7d": Range("7 days", Scale(HOUR, 169, HOUR), Scale(6 * HOUR, 29, HOUR)),
    "30d": Range("30 days", Scale(2 * HOUR, 361, HOUR), Scale(24 * HOUR, 31, HOUR)),
}
