"""A Plan as Markdown for a pull request: deterministic, and never longer than a comment may be.

Rows are added while they fit; what does not fit is counted, never cut silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bai.render.picture_text import ASCII, draw, legend
from bai.render.plan_view import (
    SYMBOLS,
    Entry,
    entries,
    origin,
    pictures,
    placement_rows,
    summary,
    wait_lines,
)
from bai.render.usage_view import UseRow, fit_lines, group_rows, quota_rows
from bai.render.words import clean, plural, short
from planner.types import NodeInfo
from reconciler.plan import Plan

LIMIT = 60_000
"""Characters; GitHub refuses comments of 65,536 and more."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~@&$])")


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


def render(plan: Plan, nodes: Mapping[str, NodeInfo] | None = None, *, limit: int = LIMIT) -> str:
    """The plan as Markdown of at most `limit` characters; `nodes` gives the hardware for pictures."""
    nodes = nodes or {}
    page = _Page(left=limit - 200)
    page.add(f"## bai plan: {escape(origin(plan))}", "", f"**{escape(summary(plan))}**", "")
    if not plan.complete:
        page.add("> Not everything could be observed: nothing is deleted.", "")
    sections: tuple[Callable[[], Iterator[tuple[str, ...]]], ...] = (
        lambda: _warnings(plan),
        lambda: _drift(plan),
        lambda: _changes(plan),
        lambda: _waits(plan),
        lambda: _placement(plan, nodes),
        lambda: _use("Quotas", quota_rows(plan)),
        lambda: _use("Resource groups", group_rows(plan)),
        lambda: _fits(plan),
        lambda: _pictures(plan, nodes),
    )
    for section in sections:
        for block in section():
            page.add(*block)
    if page.skipped:
        page.lines.append(f"\n_{page.skipped} more not shown here: the full plan is in the attached file._")
    return "\n".join(page.lines).rstrip() + "\n"


def escape(text: str) -> str:
    """Text that Markdown takes literally."""
    return _SPECIAL.sub(r"\\\1", clean(text))


def code(text: str) -> str:
    """A code span, whatever the text holds; fit for a table cell."""
    shown = clean(text).replace("|", "\\|")
    ticks = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(title: str, columns: Sequence[str]) -> tuple[str, ...]:
    return ("", f"### {title}", "", _row(columns), _row("---" for _ in columns))


def _changes(plan: Plan) -> Iterator[tuple[str, ...]]:
    found = entries(plan)
    if not found:
        return
    yield _head("Changes", ("", "resource", "why", "fields"))
    for entry in found:
        yield (_row((code(SYMBOLS[entry.kind]), code(entry.title), escape(entry.why), _fields(entry))),)


def _fields(entry: Entry) -> str:
    notes = [code(detail) for detail in entry.details]
    notes += [f"⚠ {escape(warning)}" for warning in entry.warnings]
    return "<br>".join(notes)


def _waits(plan: Plan) -> Iterator[tuple[str, ...]]:
    if plan.waits:
        yield _head("Waiting", ("session", "group", "position", "why"))
    for wait in plan.waits:
        why = "<br>".join(escape(line) for line in wait_lines(wait))
        yield (_row((code(short(wait.session)), code(wait.group), str(wait.position), why)),)


def _placement(plan: Plan, nodes: Mapping[str, NodeInfo]) -> Iterator[tuple[str, ...]]:
    rows = placement_rows(plan, nodes)
    if rows:
        yield _head("Placement", ("session", "kernel", "node", "cores", "memory", "devices", "chosen by"))
    for row in rows:
        cells = (row.session, row.kernel, row.node, row.cores, row.memory, row.devices)
        yield (_row((*map(code, cells), escape(row.why))),)


def _pictures(plan: Plan, nodes: Mapping[str, NodeInfo]) -> Iterator[tuple[str, ...]]:
    for at, node in enumerate(pictures(plan, nodes)):
        lines = [line.plain for line in draw(node, ASCII)]
        if at == 0:
            lines.append(legend(ASCII).plain)
        yield ("", "```text", *lines, "```")


def _use(title: str, rows: Sequence[UseRow]) -> Iterator[tuple[str, ...]]:
    shown = [row for row in rows if row.changed or row.full >= 1000]
    if shown:
        yield _head(title, ("", "slot", "before", "after", "limit"))
    for row in shown:
        yield (_row((escape(row.name), code(row.slot), row.before, row.after, row.limit)),)


def _fits(plan: Plan) -> Iterator[tuple[str, ...]]:
    for at, line in enumerate(fit_lines(plan)):
        yield ("",) * (at == 0) + (f"- room left in {escape(line)}",)


def _drift(plan: Plan) -> Iterator[tuple[str, ...]]:
    if plan.drifts:
        yield ("", f"### {plural(len(plan.drifts), 'drift')}", "")
    for drift in plan.drifts:
        kernel = f" {code(drift.kernel)}" if drift.kernel else ""
        yield (f"- {code(drift.resource)}{kernel}: {escape(drift.what)}",)


def _warnings(plan: Plan) -> Iterator[tuple[str, ...]]:
    if plan.warnings:
        yield ("", "### Warnings", "")
    for warning in plan.warnings:
        yield (f"- ⚠ {escape(warning)}",)
