"""A Plan for a person at a terminal: what changes and why, where it goes, what waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bai.render.humanize import clean, plural
from bai.render.nodes.picture_text import UNICODE, Glyphs, draw_alike, legend
from bai.render.plan.action_words import SYMBOLS
from bai.render.plan.changes import ChangeEntry, legend_of, stops_line
from bai.render.plan.contents import PlanContents, plan_contents
from bai.render.plan.node_rollout import rollout_lines
from bai.render.plan.placements import PlacementRow, ShapeRow, node_pictures
from bai.render.plan.sections import (
    REFUSED,
    at_most,
    override_lines,
    plan_source,
    plan_summary,
    violation_lines,
)
from bai.render.plan.services import service_rollouts
from bai.render.plan.usage import SlotUsageRow, fit_lines, group_rows, quota_rows

if TYPE_CHECKING:
    from planner.model.types import NodeInfo
    from reconciler.values.plan import Drift, Plan

STYLES = {
    "create": "green",
    "update": "yellow",
    "replace": "magenta",
    "delete": "red",
    "queue": "cyan",
    "stop": "red",
    "provision": "blue",
}
MOST_PICTURES = 6
REST = 30
"""Columns that cores, memory and devices of a place need at least."""


@dataclass(frozen=True, slots=True)
class DrawingStyle:
    """How it is drawn: the characters of pictures and bars."""

    glyphs: Glyphs = UNICODE
    bar: str = "━"
    rest: str = "─"


@dataclass(frozen=True, slots=True)
class Fullness:
    """How much of it is told: everything one by one, or what is alike together. `by` says what tells
    everything."""

    details: bool = False
    by: str = "--details"


def render_plan(
    plan: Plan,
    nodes: Mapping[str, NodeInfo] | None = None,
    look: DrawingStyle | None = None,
    fullness: Fullness | None = None,
) -> RenderableType:
    """The plan; `nodes` gives the hardware for pictures (left out for nodes not given)."""
    title = Text(f"bai plan: {plan_source(plan)}", "bold")
    parts = plan_parts(plan, nodes or {}, look or DrawingStyle(), fullness or Fullness())
    return Group(title, *parts, Text(""), summary_line(plan))


def plan_parts(
    plan: Plan, nodes: Mapping[str, NodeInfo], look: DrawingStyle, fullness: Fullness
) -> list[RenderableType]:
    """All sections of the plan, each after an empty line."""
    told = plan_contents(plan, nodes, details=fullness.details)
    sections = (
        _drift(plan.drifts, told.most_lines),
        _changes(told),
        _rollout(plan, told.most_lines),
        _placement(plan, told, nodes, look),
        _waits(told),
        _services(plan, told.most_lines),
        _usage("Quotas", quota_rows(plan), look, told.most_lines),
        _groups(plan, look, told.most_lines),
        _warnings(told),
        _overrides(plan, told.most_lines),
        _refusals(plan),
        [_hanging(Text(_more_by(fullness.by), "dim"), 0)] if told.short else [],
    )
    return [part for section in sections if section for part in (Text(""), *section)]


def summary_line(plan: Plan) -> Text:
    """The summary line."""
    text = Text(plan_summary(plan), "bold")
    if not plan.complete:
        text.append(" Not everything could be observed: nothing is deleted.", "bold yellow")
    return text


def _changes(told: PlanContents) -> list[RenderableType]:
    if not told.entries:
        return []
    title = heading("Changes").append(f"  {legend_of(told.entries)}", "not bold not underline dim")
    lines: list[RenderableType] = [title, *(line for entry in told.entries for line in _entry(entry))]
    return [*lines, _more(told.more_entries)] if told.more_entries else lines


def _rollout(plan: Plan, most: int) -> list[RenderableType]:
    lines = at_most(rollout_lines(plan), most)
    return [heading("Provisioning"), *(_hanging(Text(line), 4) for line in lines)] if lines else []


def _entry(entry: ChangeEntry) -> Iterator[RenderableType]:
    style = STYLES[entry.kind]
    line = Text(SYMBOLS[entry.kind].rjust(3), f"bold {style}")
    line.append(f" {entry.label}", style)
    if entry.why:
        line.append(f"  {entry.why}", "dim")
    yield _hanging(line, 2)
    if entry.listed:
        yield _hanging(Text(entry.listed, style), 8)
    for detail in (*entry.details, stops_line(entry)):
        if detail:
            yield _hanging(_detail(detail), 8)
    for warning in entry.warnings:
        yield _hanging(Text(f"! {warning}", "yellow"), 8)


def _detail(detail: str) -> Text:
    """One detail; of a text that changes line by line, the lines below it."""
    head, _, below = detail.partition("\n")
    value, mark, note = head.partition("  # ")
    text = Text(value)
    if mark:
        text.append(f"  # {note}", "magenta")
    for line in below.split("\n") if below else ():
        text.append(f"\n{line}", "red" if line.startswith("  -") else "green")
    return text


def _more_by(what: str) -> str:
    return (
        f"Told in short: {what} lists everything; `bai explain SESSION` says where one goes or why it waits."
    )


def _more(line: str) -> RenderableType:
    return _hanging(Text(line, "dim"))


def _placement(
    plan: Plan, told: PlanContents, nodes: Mapping[str, NodeInfo], look: DrawingStyle
) -> list[RenderableType]:
    if not told.rows and not told.shapes:
        return []
    parts: list[RenderableType] = [heading("Placement")]
    if told.rows:
        parts.append(_indented(_PlacementTable(told.rows)))
        parts += [_hanging(Text(f"{row.session}: {row.why}", "dim")) for row in told.rows if row.why]
    if told.shapes:
        parts.append(_indented(_shape_table(told.shapes)))
        parts += [_more(told.more_shapes)] if told.more_shapes else []
    return [*parts, *_pictures(plan, nodes, look)]


def _pictures(plan: Plan, nodes: Mapping[str, NodeInfo], look: DrawingStyle) -> Iterator[RenderableType]:
    drawn = draw_alike(node_pictures(plan, nodes), look.glyphs)
    for _, lines in drawn[:MOST_PICTURES]:
        yield Text("")
        yield from (Text("  ").append_text(line) for line in lines)
    more = sum(count for count, _ in drawn[MOST_PICTURES:])
    if more:
        where = "`bai nodes show NODE --plan FILE`, of a plan that was saved with --out"
        yield _hanging(Text(f"and {plural(more, 'more node')}: {where}", "dim"), 2)
    if drawn:
        yield from (Text("  ").append_text(line) for line in legend(look.glyphs))


def _shape_table(rows: Sequence[ShapeRow]) -> Table:
    table = _plain_table("sessions", "", "group", "each is given", "on")
    for row in rows:
        table.add_row(str(len(row.sessions)), row.names, row.group, row.each, row.node)
    table.columns[0].no_wrap = True
    for column, texts in ((1, [row.names for row in rows]), (4, [row.node for row in rows])):
        table.columns[column].min_width = min(_longest_word(texts), REST)
    return table


@dataclass(frozen=True, slots=True)
class _PlacementTable:
    """The table of places. Where it is narrow, containers stand below their session; names are broken only
    where the rest would have no room beside them."""

    rows: Sequence[PlacementRow]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        beside = [(row.session, row.container, row.node) for row in self.rows]
        below = [(_stacked(row), row.node) for row in self.rows]
        gangs = any(row.containers for row in self.rows)
        wide = gangs and _width(beside) + REST <= options.max_width
        names: Sequence[tuple[str, ...]] = beside if wide else below
        heads = ("session", "container", "node") if wide else ("session", "node")
        table = _plain_table(*heads, "cores", "memory", "devices")
        for row, named in zip(self.rows, names, strict=True):
            table.add_row(*named, row.cores, row.memory, row.devices)
        for column in table.columns[: len(heads)]:
            column.no_wrap = _width(names) + REST <= options.max_width
        yield table


def _stacked(row: PlacementRow) -> str:
    """Session and containers in one cell, over each other."""
    return "\n".join(part for part in (row.session, f"  {row.container}" if row.containers else "") if part)


def _width(names: Sequence[tuple[str, ...]]) -> int:
    """Columns that these cells take unbroken."""
    return sum(
        max(len(line) for cell in column for line in cell.split("\n")) + 2
        for column in zip(*names, strict=True)
    )


def _longest_word(texts: Sequence[str]) -> int:
    return max(len(word) for text in texts for word in text.split(" "))


def _waits(told: PlanContents) -> list[RenderableType]:
    if not told.waits:
        return []
    parts: list[RenderableType] = [heading("Waiting")]
    for group in told.waits:
        first = group.waits[0]
        alone = len(group.waits) == 1
        line = Text(f"  {first.position or '-':>3} " if alone else "    ", "dim")
        line.append(group.names if alone else group.title, "cyan")
        parts.append(_hanging(line.append(f"  {group.title}", "dim") if alone else line, 0))
        lines = group.lines if alone else [group.names, *group.lines]
        parts += [_hanging(Text(reason), 8) for reason in lines]
    return [*parts, _more(told.more_waits)] if told.more_waits else parts


def _services(plan: Plan, most: int) -> list[RenderableType]:
    found = service_rollouts(plan)
    if not found:
        return []
    texts = (Text(one.service, one.style).append(f"  {one.text}", "default") for one in found[:most])
    lines = list(map(_hanging, texts))
    more = [_more(f"and {plural(len(found) - most, 'more service')}")] if len(found) > most else []
    return [heading("Services"), *lines, *more]


def _drift(drifts: Sequence[Drift], most: int) -> list[RenderableType]:
    if not drifts:
        return []
    lines: list[RenderableType] = []
    for drift in drifts[:most]:
        kernel = f" ({clean(drift.kernel)})" if drift.kernel else ""
        lines.append(Text(f"    {clean(drift.resource)}{kernel}: ").append(clean(drift.what), "yellow"))
    if len(drifts) > most:
        lines.append(_more(f"and {len(drifts) - most} more"))
    return [heading("Drift: what runs differs from what was recorded"), *lines]


def _usage(title: str, rows: Sequence[SlotUsageRow], look: DrawingStyle, most: int) -> list[RenderableType]:
    shown = [row for row in rows if row.changed or row.full >= 1000]
    if not shown:
        return []
    table = _plain_table("", "slot", "before", "after", "limit", "")
    last = ""
    for row in shown[:most]:
        name = "" if row.name == last else row.name
        table.add_row(name, row.slot, row.before, row.after, row.limit, bar(row.full, look))
        last = row.name
    more = [_more(f"and {len(shown) - most} more")] if len(shown) > most else []
    return [heading(title), _indented(table), *more]


def _groups(plan: Plan, look: DrawingStyle, most: int) -> list[RenderableType]:
    fits = at_most(fit_lines(plan), most)
    parts = _usage("Resource groups", group_rows(plan), look, most)
    if parts and fits:
        parts += [_hanging(Text(f"room left in {line}", "dim")) for line in fits]
    return parts


def _warnings(told: PlanContents) -> list[RenderableType]:
    if not told.warnings:
        return []
    lines = (Text(f"! {warning}", "yellow") for warning in at_most(told.warnings, told.most_lines))
    return [heading("Warnings"), *map(_hanging, lines)]


def _overrides(plan: Plan, most: int) -> list[RenderableType]:
    lines = at_most(override_lines(plan), most)
    if not lines:
        return []
    return [heading("Overridden policies"), *(_hanging(Text(line, "yellow")) for line in lines)]


def _refusals(plan: Plan) -> list[RenderableType]:
    lines = violation_lines(plan)
    return [heading(REFUSED), *(_hanging(Text(line, "red")) for line in lines)] if lines else []


def bar(full: int, look: DrawingStyle, width: int = 10) -> Text:
    """A bar for thousandths: full at 1000 and not before, so that it says so without its colour, too."""
    filled = width if full >= 1000 else max(0, min(width - 1, -(-full * width // 1000)))
    style = "red" if full >= 1000 else "yellow" if full >= 800 else "green"
    return Text(look.bar * filled, style).append(look.rest * (width - filled), "dim")


def heading(title: str) -> Text:
    """The title of a section."""
    return Text(title, "bold underline")


def _plain_table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _indented(table: RenderableType) -> Padding:
    return Padding(table, (0, 0, 0, 4))


def _hanging(text: Text, indent: int = 4) -> Padding:
    """A text whose further lines stay indented, too."""
    return Padding(text, (0, 0, 0, indent))
