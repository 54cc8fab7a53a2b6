"""A panel with axes and curves, as lines of SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bai.render.humanize import duration

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 26, 26
_STEPS = (60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 21600.0, 43200.0, 86400.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """Points (seconds, or what the panel's marks are in, and value), ascending."""

    colour: str
    dash: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over seconds from 0 to `span`; values from 0 to `most` (None: as far as they go). `marks`: what
    stands below the axis in place of round times, and where."""

    title: str
    curves: Sequence[Curve]
    span: float
    most: float | None = None
    marks: Sequence[tuple[float, str]] | None = None


def panel_lines(panel: Panel, x: int, y: int, width: int, height: int) -> Iterator[str]:
    """The panel with its upper left corner at (x, y)."""
    highest = max((value for one in panel.curves for _, value in one.points), default=0.0)
    ticks = value_ticks(panel.most if panel.most is not None else highest)
    top = ticks[-1]
    left, right, upper, lower = x + _LEFT, x + width - _RIGHT, y + _TOP, y + height - _BOTTOM
    yield f'<text x="{x}" y="{y + 12}" class="title">{escape(panel.title)}</text>'
    for value in ticks:
        at = lower - (lower - upper) * value / top
        yield f'<path d="M{left} {at:.1f} H{right}" stroke="#e8eaed"/>'
        yield f'<text x="{left - 6}" y="{at + 4:.1f}" class="small" text-anchor="end">{value:g}</text>'
    for place, label in panel.marks or [(at, duration(at)) for at in time_ticks(panel.span)]:
        at = left + (right - left) * place / max(panel.span, 1e-9)
        yield f'<path d="M{at:.1f} {lower} v4" stroke="#5f6368"/>'
        yield f'<text x="{at:.1f}" y="{lower + 17}" class="small" text-anchor="middle">{escape(label)}</text>'
    yield f'<path d="M{left} {lower} H{right}" stroke="#5f6368"/>'
    for one in panel.curves:
        path = " ".join(
            f"{'L' if at else 'M'}{left + (right - left) * seconds / max(panel.span, 1e-9):.1f}"
            f" {lower - (lower - upper) * min(value, top) / top:.1f}"
            for at, (seconds, value) in enumerate(one.points)
        )
        if path:
            dash = f' stroke-dasharray="{one.dash}"' if one.dash else ""
            yield f'<path class="curve" stroke="{one.colour}"{dash} d="{path}"/>'


def value_ticks(most: float) -> list[float]:
    """Round values from 0 to at least `most`, four or five steps apart."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * (1 - 1e-9))
    return [step * at for at in range(math.ceil(most / step - 1e-9) + 1)]


def time_ticks(span: float) -> list[float]:
    """Round times from 0 to `span`, at most seven."""
    if span <= 0:
        return [0.0]
    step = next((one for one in _STEPS if span / one <= 6), 0.0)
    if not step:
        step = 86400.0 * math.ceil(span / 86400 / 6)
    if span < 60:
        step = max(1.0, math.ceil(span / 6))
    return [step * at for at in range(int(span / step) + 1)]
