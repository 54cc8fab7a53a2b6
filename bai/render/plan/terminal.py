"""A Plan for a person at a terminal: what changes and why, where it goes, what waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bai.render.humanize import clean, plural, short_name
from bai.render.nodes.picture_text import UNICODE, Glyphs, draw_node, legend
from bai.render.plan.node_rollout import rollout_lines
from bai.render.plan.sections import (
    REFUSED,
    SYMBOLS,
    ChangeEntry,
    PlacementRow,
    change_entries,
    node_pictures,
    override_lines,
    placement_rows,
    plan_source,
    plan_summary,
    unreached_lines,
    violation_lines,
    wait_lines,
)
from bai.render.plan.usage import SlotUsageRow, fit_lines, group_rows, quota_rows
from planner.model.types import NodeInfo
from reconciler.values.plan import Plan

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


def render_plan(
    plan: Plan, nodes: Mapping[str, NodeInfo] | None = None, look: DrawingStyle | None = None
) -> RenderableType:
    """The whole plan; `nodes` gives the hardware for pictures (left out for nodes not given)."""
    title = Text(f"bai plan: {plan_source(plan)}", "bold")
    return Group(title, *plan_parts(plan, nodes or {}, look or DrawingStyle()), Text(""), summary_line(plan))


def plan_parts(plan: Plan, nodes: Mapping[str, NodeInfo], look: DrawingStyle) -> list[RenderableType]:
    """All sections of the plan, each after an empty line."""
    sections = (
        _drift(plan),
        _changes(plan),
        _rollout(plan),
        _placement(plan, nodes, look),
        _waits(plan),
        _usage("Quotas", quota_rows(plan), look),
        _groups(plan, look),
        _warnings(plan),
        _overrides(plan),
        _refusals(plan),
    )
    return [part for section in sections if section for part in (Text(""), *section)]


def summary_line(plan: Plan) -> Text:
    """The summary line."""
    text = Text(plan_summary(plan), "bold")
    if not plan.complete:
        text.append(" Not everything could be observed: nothing is deleted.", "bold yellow")
    return text


def _changes(plan: Plan) -> list[RenderableType]:
    found = change_entries(plan)
    if not found:
        return []
    return [heading("Changes"), *(line for entry in found for line in _entry(entry))]


def _rollout(plan: Plan) -> list[RenderableType]:
    lines = rollout_lines(plan)
    return [heading("Provisioning"), *(_hanging(Text(line), 4) for line in lines)] if lines else []


def _entry(entry: ChangeEntry) -> Iterator[RenderableType]:
    style = STYLES[entry.kind]
    line = Text("  ").append(SYMBOLS[entry.kind].rjust(3), f"bold {style}")
    line.append(f" {entry.title}", style)
    if entry.why:
        line.append(f"  {entry.why}", "dim")
    yield line
    for detail in entry.details:
        value, mark, note = detail.partition("  # ")
        line = Text(value)
        if mark:
            line.append(f"  # {note}", "magenta")
        yield _hanging(line, 8)
    for warning in entry.warnings:
        yield _hanging(Text(f"! {warning}", "yellow"), 8)


def _placement(plan: Plan, nodes: Mapping[str, NodeInfo], look: DrawingStyle) -> list[RenderableType]:
    rows = placement_rows(plan, nodes)
    if not rows:
        return []
    drawn = node_pictures(plan, nodes)
    parts: list[RenderableType] = [heading("Placement"), Padding(_PlacementTable(rows), (0, 0, 0, 4))]
    parts += [_hanging(Text(f"{row.session}: {row.why}", "dim")) for row in rows if row.why]
    for node in drawn[:MOST_PICTURES]:
        parts += [Text(""), *(Text("  ").append_text(line) for line in draw_node(node, look.glyphs))]
    if len(drawn) > MOST_PICTURES:
        more = plural(len(drawn) - MOST_PICTURES, "more node")
        parts.append(Text(f"  and {more}: `bai nodes show NODE`", "dim"))
    if drawn:
        parts.append(Text("  ").append_text(legend(look.glyphs)))
    return parts


@dataclass(frozen=True, slots=True)
class _PlacementTable:
    """The table of places. Names are broken only where the rest would have no room beside them."""

    rows: Sequence[PlacementRow]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        table = _plain_table("session", "kernel", "node", "cores", "memory", "devices")
        for row in self.rows:
            table.add_row(row.session, row.kernel, row.node, row.cores, row.memory, row.devices)
        names = ([row.session, row.kernel, row.node] for row in self.rows)
        widths = [max(map(len, column)) + 2 for column in zip(*names, strict=True)]
        for column in table.columns[:3]:
            column.no_wrap = sum(widths) + REST <= options.max_width
        yield table


def _waits(plan: Plan) -> list[RenderableType]:
    if not plan.waits:
        return []
    parts: list[RenderableType] = [heading("Waiting")]
    for wait in plan.waits:
        line = Text(f"  {wait.position or '-':>3} ", "dim").append(short_name(wait.session), "cyan")
        parts.append(line.append(f"  in group {clean(wait.group)}", "dim"))
        parts += [_hanging(Text(reason), 8) for reason in wait_lines(wait)]
    return parts


def _drift(plan: Plan) -> list[RenderableType]:
    if not plan.drifts:
        return []
    lines = []
    for drift in plan.drifts:
        kernel = f" ({clean(drift.kernel)})" if drift.kernel else ""
        lines.append(Text(f"    {clean(drift.resource)}{kernel}: ").append(clean(drift.what), "yellow"))
    return [heading("Drift: what runs differs from what was recorded"), *lines]


def _usage(title: str, rows: Sequence[SlotUsageRow], look: DrawingStyle) -> list[RenderableType]:
    shown = [row for row in rows if row.changed or row.full >= 1000]
    if not shown:
        return []
    table = _plain_table("", "slot", "before", "after", "limit", "")
    last = ""
    for row in shown:
        name = "" if row.name == last else row.name
        table.add_row(name, row.slot, row.before, row.after, row.limit, bar(row.full, look))
        last = row.name
    return [heading(title), _indented(table)]


def _groups(plan: Plan, look: DrawingStyle) -> list[RenderableType]:
    fits = fit_lines(plan)
    parts = _usage("Resource groups", group_rows(plan), look)
    if parts and fits:
        parts += [Text(f"    room left in {line}", "dim") for line in fits]
    return parts


def _warnings(plan: Plan) -> list[RenderableType]:
    warnings = [*unreached_lines(plan), *map(clean, plan.warnings)]
    if not warnings:
        return []
    lines = (Text(f"! {warning}", "yellow") for warning in warnings)
    return [heading("Warnings"), *map(_hanging, lines)]


def _overrides(plan: Plan) -> list[RenderableType]:
    lines = override_lines(plan)
    if not lines:
        return []
    return [heading("Overridden policies"), *(_hanging(Text(line, "yellow")) for line in lines)]


def _refusals(plan: Plan) -> list[RenderableType]:
    lines = violation_lines(plan)
    return [heading(REFUSED), *(_hanging(Text(line, "red")) for line in lines)] if lines else []


def bar(full: int, look: DrawingStyle, width: int = 10) -> Text:
    """A bar for thousandths: full at 1000."""
    filled = max(0, min(width, -(-full * width // 1000)))
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


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 4))


def _hanging(text: Text, indent: int = 4) -> Padding:
    """A text whose further lines stay indented, too."""
    return Padding(text, (0, 0, 0, indent))
