"""A report of titled lines and tables, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from bai.render.humanize import clean
from bai.render.plan.markdown import escape
from bai.render.printout import Section, Table


def render_report(sections: Sequence[Section]) -> RenderableType:
    """The report as lines and aligned tables."""
    parts: list[RenderableType] = []
    for at, section in enumerate(sections):
        if at:
            parts.append(Text(""))
        parts.append(Text(clean(section.title), "bold" if section.level == 1 else "bold underline"))
        for part in section.parts:
            parts.append(
                _indented_line(part) if isinstance(part, str) else Padding(_rich_table(part), (0, 0, 0, 4))
            )
    return Group(*parts)


def _indented_line(text: str) -> RenderableType:
    return Padding(Text(clean(text)), (0, 0, 0, 4))


def _rich_table(grid: Table) -> RichTable:
    table = RichTable(
        box=None,
        padding=(0, 2, 0, 0),
        header_style="dim",
        pad_edge=False,
        show_edge=False,
        show_header=bool(grid.columns),
    )
    for column in grid.columns or ("",) * max(map(len, grid.rows), default=0):
        table.add_column(Text(clean(column)), overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    return table


def render_report_markdown(sections: Sequence[Section]) -> str:
    """The report for a pull request or an issue."""
    return "\n".join(line for section in sections for line in _section_markdown(section)).strip() + "\n"


def _section_markdown(section: Section) -> Iterator[str]:
    yield f"\n{'#' * (section.level + 1)} {escape(section.title)}\n"
    for before, part in zip((None, *section.parts), section.parts, strict=False):
        if isinstance(part, str):
            if isinstance(before, Table):
                yield ""
            yield f"- {escape(part)}"
            continue
        if before is not None:
            yield ""
        columns = part.columns or ("",) * max(map(len, part.rows), default=1)
        yield _markdown_row(columns)
        yield _markdown_row(["---"] * len(columns))
        yield from (_markdown_row(row) for row in part.rows)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"
