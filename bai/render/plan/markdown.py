"""A Plan as Markdown for a pull request: deterministic, and never longer than a comment may be.

Rows are added while they fit; what does not fit is counted, never cut silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bai.render.humanize import clean, plural, short_name
from bai.render.nodes.picture_text import ASCII, draw_node, legend
from bai.render.plan.node_rollout import rollout_lines
from bai.render.plan.sections import (
    REFUSED,
    SYMBOLS,
    ChangeEntry,
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
    yield _refusals(plan)
    yield _overrides(plan)
    yield _warnings(plan)
    yield _drift(plan)
    yield _changes(plan)
    yield _rollout(plan)
    yield _waits(plan)
    yield _placement(plan, nodes)
    yield _usage("Quotas", quota_rows(plan))
    yield _usage("Resource groups", group_rows(plan))
    yield _fits(plan)
    yield _pictures(plan, nodes)


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


def _changes(plan: Plan) -> Iterator[Block]:
    found = change_entries(plan)
    if not found:
        return
    yield table_head("Changes", ("", "resource", "why", "fields"))
    for entry in found:
        yield (table_row((code(SYMBOLS[entry.kind]), code(entry.title), escape(entry.why), _fields(entry))),)


def _fields(entry: ChangeEntry) -> str:
    notes = [code(detail) for detail in entry.details]
    notes += [f"⚠ {escape(warning)}" for warning in entry.warnings]
    return "<br>".join(notes)


def _waits(plan: Plan) -> Iterator[Block]:
    if plan.waits:
        yield table_head("Waiting", ("session", "group", "position", "why"))
    for wait in plan.waits:
        why = "<br>".join(escape(line) for line in wait_lines(wait))
        yield (table_row((code(short_name(wait.session)), code(wait.group), str(wait.position or "-"), why)),)


def _placement(plan: Plan, nodes: Mapping[str, NodeInfo]) -> Iterator[Block]:
    rows = placement_rows(plan, nodes)
    if rows:
        yield table_head(
            "Placement", ("session", "kernel", "node", "cores", "memory", "devices", "chosen by")
        )
    for row in rows:
        cells = (row.session, row.kernel, row.node, row.cores, row.memory, row.devices)
        yield (table_row((*map(code, cells), escape(row.why))),)


def _pictures(plan: Plan, nodes: Mapping[str, NodeInfo]) -> Iterator[Block]:
    for at, node in enumerate(node_pictures(plan, nodes)):
        lines = [line.plain for line in draw_node(node, ASCII)]
        if at == 0:
            lines.append(legend(ASCII).plain)
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


def _warnings(plan: Plan) -> Iterator[Block]:
    warnings = [*unreached_lines(plan), *plan.warnings]
    if warnings:
        yield ("", "### Warnings", "")
    for warning in warnings:
        yield (f"- ⚠ {escape(warning)}",)
