"""A Plan as Markdown for a pull request: deterministic, and never longer than a comment may be.

Rows are added while they fit; what does not fit is counted, never cut silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bai.render.humanize import clean, plural
from bai.render.nodes.picture_text import ASCII, draw_alike, legend
from bai.render.plan.action_words import SYMBOLS
from bai.render.plan.changes import ChangeEntry, legend_of, stops_line
from bai.render.plan.contents import PlanContents, plan_contents
from bai.render.plan.node_rollout import rollout_lines
from bai.render.plan.placements import node_pictures
from bai.render.plan.sections import (
    REFUSED,
    override_lines,
    plan_source,
    plan_summary,
    violation_lines,
)
from bai.render.plan.services import service_rollouts
from bai.render.plan.usage import SlotUsageRow, fit_lines, group_rows, quota_rows

if TYPE_CHECKING:
    from planner.model.types import NodeInfo
    from reconciler.values.plan import Plan

LIMIT = 60_000
"""Characters; GitHub refuses comments of 65,536 and more."""
Block = tuple[str, ...]
"""Lines that are shown together, or not at all."""
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")
_MENTIONS = re.compile(r"(@|\\#|!)(?=\w)")
"""What hosts of repositories read as the name of a person, an issue or a change, backslash or not."""


@dataclass
class _Page:
    """Lines within a budget of characters. `closing` is what must still fit for the blocks that are open."""

    left: int
    lines: list[str] = field(default_factory=list)
    skipped: int = 0

    def add(self, *lines: str) -> bool:
        """All of the lines or none; False when they do not fit any more."""
        cost = sum(len(line) + 1 for line in lines)
        if cost > self.left:
            self.skipped += 1
            return False
        self.left -= cost
        self.lines += lines
        return True


def render_plan_markdown(
    plan: Plan, nodes: Mapping[str, NodeInfo] | None = None, *, limit: int = LIMIT
) -> str:
    """The plan as Markdown of at most `limit` characters; `nodes` gives the hardware for pictures."""
    title: list[Block] = [
        (f"## bai plan: {escape(plan_source(plan))}", "", f"**{escape(plan_summary(plan))}**", "")
    ]
    if not plan.complete:
        title.append(("> Not everything could be observed: nothing is deleted.", ""))
    return assemble_page([title, *plan_blocks(plan, nodes or {})], limit=limit)


def plan_blocks(plan: Plan, nodes: Mapping[str, NodeInfo]) -> Iterator[Iterable[Block]]:
    """What the plan says, section by section, the most important first."""
    told = plan_contents(plan, nodes, details=False)
    yield _refusals(plan)
    yield _overrides(plan)
    yield _warnings(told)
    yield _drift(plan)
    yield _changes(told)
    yield _rollout(plan)
    yield _waits(told)
    yield _services(plan)
    yield _placement(told)
    yield _usage("Quotas", quota_rows(plan))
    yield _usage("Resource groups", group_rows(plan))
    yield _fits(plan)
    yield _pictures(plan, nodes)
    if told.short:
        yield [
            (
                "",
                "_Similar things are told together: `--details` of `bai plan` and `bai review` lists each._",
            )
        ]


def assemble_page(parts: Iterable[Iterable[Block]], *, limit: int, closing: Block = ()) -> str:
    """One page of at most `limit` characters: blocks as long as they fit, the number of those that do not,
    and `closing` in any case."""
    page = _Page(left=limit - 200 - sum(len(line) + 1 for line in closing))
    for part in parts:
        for block in part:
            page.add(*block)
    if page.skipped:
        page.lines.append(f"\n_{page.skipped} more not shown here: the full plan is in the attached file._")
    return "\n".join([*page.lines, *closing]).rstrip() + "\n"


def escape(text: str) -> str:
    """Text that Markdown takes literally, and that calls nobody."""
    return _MENTIONS.sub(r"\1&#8203;", _MARKDOWN_SPECIAL.sub(r"\\\1", clean(text)))


def code(text: str) -> str:
    """A code span, whatever the text holds; fit for a table cell."""
    shown = clean(text).replace("|", "\\|")
    ticks = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def table_row(cells: Iterable[str]) -> str:
    """A table's row."""
    return f"| {' | '.join(cells)} |"


def table_head(title: str, columns: Sequence[str]) -> Block:
    """A section's title and the head of its table."""
    return ("", f"### {title}", "", table_row(columns), table_row("---" for _ in columns))


def _rollout(plan: Plan) -> Iterator[Block]:
    lines = rollout_lines(plan)
    if lines:
        yield ("", "### Provisioning", "")
    yield from ((f"- {escape(line)}",) for line in lines)


def _changes(told: PlanContents) -> Iterator[Block]:
    if not told.entries:
        return
    yield table_head(f"Changes ({legend_of(told.entries)})", ("", "resource", "why", "fields"))
    for entry in told.entries:
        yield (table_row((code(SYMBOLS[entry.kind]), code(entry.title), escape(entry.why), _fields(entry))),)
    yield from _left_out(told.more_entries)


def _left_out(text: str) -> Iterator[Block]:
    if text:
        yield ("", f"_{escape(text)}_")


def _fields(entry: ChangeEntry) -> str:
    notes = [code(line) for detail in (*entry.details, stops_line(entry)) for line in detail.split("\n")]
    notes += [f"⚠ {escape(warning)}" for warning in entry.warnings]
    return "<br>".join(note for note in notes if note)


def _waits(told: PlanContents) -> Iterator[Block]:
    if told.waits:
        yield table_head("Waiting", ("session", "group", "position", "why"))
    for group in told.waits:
        why = "<br>".join(escape(line) for line in group.reasons)
        place = "-" if len(group.waits) > 1 else str(group.waits[0].position or "-")
        yield (table_row((code(group.names), code(group.group), place, why)),)
    yield from _left_out(told.more_waits)


def _services(plan: Plan) -> Iterator[Block]:
    lines = service_rollouts(plan)
    if lines:
        yield ("", "### Services", "")
    yield from ((f"- {code(one.service)} {escape(one.text)}",) for one in lines)


def _placement(told: PlanContents) -> Iterator[Block]:
    if told.rows:
        columns = ("session", "container", "node", "cores", "memory", "devices", "chosen by")
        yield table_head("Placement", columns)
    for row in told.rows:
        cells = (row.session, row.container, row.node, row.cores, row.memory, row.devices)
        yield (table_row((*map(code, cells), escape(row.why))),)
    if told.shapes:
        yield table_head("Placement", ("sessions", "", "group", "each is given", "on"))
    for shape in told.shapes:
        texts = (shape.names, shape.group, shape.each, shape.node)
        yield (table_row((str(len(shape.sessions)), *map(code, texts))),)
    yield from _left_out(told.more_shapes)


def _pictures(plan: Plan, nodes: Mapping[str, NodeInfo]) -> Iterator[Block]:
    for at, (_, drawn) in enumerate(draw_alike(node_pictures(plan, nodes), ASCII)):
        lines = [line.plain for line in drawn]
        if at == 0:
            lines += [line.plain for line in legend(ASCII)]
        yield ("", "```text", *lines, "```")


def _usage(title: str, rows: Sequence[SlotUsageRow]) -> Iterator[Block]:
    shown = [row for row in rows if row.changed or row.full >= 1000]
    if shown:
        yield table_head(title, ("", "slot", "before", "after", "limit"))
    for row in shown:
        yield (table_row((escape(row.name), code(row.slot), row.before, row.after, row.limit)),)


def _fits(plan: Plan) -> Iterator[Block]:
    for at, line in enumerate(fit_lines(plan)):
        yield ("",) * (at == 0) + (f"- room left in {escape(line)}",)


def _drift(plan: Plan) -> Iterator[Block]:
    if plan.drifts:
        yield ("", f"### {plural(len(plan.drifts), 'drift')}", "")
    for drift in plan.drifts:
        kernel = f" {code(drift.kernel)}" if drift.kernel else ""
        yield (f"- {code(drift.resource)}{kernel}: {escape(drift.what)}",)


def _refusals(plan: Plan) -> Iterator[Block]:
    if lines := violation_lines(plan):
        yield ("", f"> ⛔ {REFUSED}:", ">", *(f"> - {escape(line)}" for line in lines))


def _overrides(plan: Plan) -> Iterator[Block]:
    if lines := override_lines(plan):
        yield ("", "### Overridden policies", "")
        yield from ((f"- ⚠ {escape(line)}",) for line in lines)


def _warnings(told: PlanContents) -> Iterator[Block]:
    if told.warnings:
        yield ("", "### Warnings", "")
    for warning in told.warnings:
        yield (f"- ⚠ {escape(warning)}",)
