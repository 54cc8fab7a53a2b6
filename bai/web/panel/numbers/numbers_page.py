"""A cluster over time on one page: plots, and each also as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bai.render.humanize import duration, iso_time
from bai.web.panel.blocks import TableBlock
from bai.web.panel.numbers.pictures import Unit
from bai.web.panel.numbers.plots import Plot, plots_of
from bai.web.panel.numbers.points import Point, points_of
from bai.web.panel.numbers.ranges import RANGES, RangeName, Scale
from schemas.problems.errors.command import NoSuchResource

if TYPE_CHECKING:
    from bai.web.cluster_loops import ServedCluster
    from bai.web.pass_view import PassView

_NONE = "-"


@dataclass(frozen=True, slots=True)
class PlotPart:
    """One plot. `label`: what it shows in words; `table`: the same in coarser steps."""

    key: str
    title: str
    about: str
    label: str
    table: TableBlock


@dataclass(frozen=True, slots=True)
class NumbersPage:
    """`ranges`: names and labels. `since`: when what is shown begins, as ISO 8601."""

    range: RangeName
    group: str
    ranges: tuple[tuple[str, str], ...]
    groups: tuple[str, ...]
    since: str
    plots: tuple[PlotPart, ...]


def numbers_page(cluster: ServedCluster, view: PassView, time: RangeName, group: str) -> NumbersPage:
    """Raises NoSuchResource for a group that there is not, and StoreError."""
    groups = tuple(sorted(view.desired.groups))
    if group and group not in groups:
        raise NoSuchResource(what="resource group", name=group, hint="")
    scale = RANGES[time].table
    points = read_points(cluster, scale, group)
    return NumbersPage(
        range=time,
        group=group,
        ranges=tuple((name, each.label) for name, each in RANGES.items()),
        groups=groups,
        since=iso_time(scale.begin(view.now)),
        plots=tuple(_part(plot, scale, view.now, group) for plot in plots_of(points) if plot.lines),
    )


def plot_data(cluster: ServedCluster, time: RangeName, group: str) -> dict[str, Any]:
    """What scripts draw: times in seconds since the epoch, and plots by key. Raises StoreError."""
    scale, now = RANGES[time].plot, cluster.loop.workspace.clock.now()
    begin = scale.begin(now)
    plots = plots_of(read_points(cluster, scale, group))
    return {
        "times": [int(begin) + at * scale.step for at in range(scale.count)],
        "plots": {
            plot.key: {
                "title": plot.title,
                "unit": plot.unit,
                "lines": [{"label": line.label, "values": line.values} for line in plot.lines],
            }
            for plot in plots
        },
    }


def read_points(cluster: ServedCluster, scale: Scale, group: str) -> list[Point | None]:
    """What the store has of a time. Raises StoreError."""
    workspace = cluster.loop.workspace
    now, store = workspace.clock.now(), workspace.existing_store
    if store is None:
        return [None] * scale.count
    rows = store.figures(cluster.name, scale.length, scale.begin(now), now + 1, group or None)
    return points_of(rows, scale, now)


def _part(plot: Plot, scale: Scale, now: float, group: str) -> PlotPart:
    about = f"{plot.about} All groups together." if group and plot.whole else plot.about
    return PlotPart(plot.key, plot.title, about, _label(plot), _table(plot, scale, now))


def _label(plot: Plot) -> str:
    """`Allocated: GPUs 75 %, cores 12.5 %`: how it is at the end."""
    now = [f"{line.label} {_words(last, plot.unit)}" for line in plot.lines if (last := _last(line.values))]
    return f"{plot.title}: {', '.join(now)}" if now else plot.title


def _last(values: tuple[float | None, ...]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _table(plot: Plot, scale: Scale, now: float) -> TableBlock:
    """The newest first; times of which nothing is known are left out."""
    columns = ("from (UTC)", *(line.label for line in plot.lines))
    rows = tuple(_rows(plot, scale, now))[::-1]
    return TableBlock(columns, rows, "Nothing is known.", (False, *(True for _ in plot.lines)))


def _rows(plot: Plot, scale: Scale, now: float) -> Iterator[tuple[str, ...]]:
    begin = scale.begin(now)
    for at in range(scale.count):
        values = [line.values[at] for line in plot.lines]
        if any(value is not None for value in values):
            began = iso_time(begin + at * scale.step)[:16].replace("T", " ")
            yield began, *(_words(value, plot.unit) for value in values)


def _words(value: float | None, unit: Unit) -> str:
    if value is None:
        return _NONE
    if unit == "s":
        return duration(value)
    number = f"{value:.1f}".removesuffix(".0")
    return f"{number} %" if unit == "%" else number
