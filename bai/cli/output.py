"""Where output goes: a rich console that is plain when nobody sits at a terminal."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, TextIO

from bai.render.humanize import ascii_only, clean
from bai.settings import Settings
from schemas.values.naturals import parse_natural

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from bai.cli.formats import PlanFormat
    from bai.render.plan.terminal import DrawingStyle
    from bai.render.printout import Lines, Overview, Printout, Section

PLAIN_WIDTH = 120


def is_terminal(stream: TextIO) -> bool:
    """Whether a person sees this stream (a `dumb` terminal counts as none)."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def standard_input() -> IO[bytes] | None:
    """Standard input in bytes; None when it is closed."""
    return None if sys.stdin is None else sys.stdin.buffer


def console(settings: Settings, stream: TextIO | None = None) -> Console:
    """A console on stdout (or `stream`): colour only on a terminal, without NO_COLOR and `--no-color`."""
    from rich.console import Console

    stream = stream or sys.stdout
    terminal = is_terminal(stream)
    plain = settings.color is False or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=plain or not terminal,
        width=None if terminal else _plain_width(),
        markup=False,
        highlight=False,
        emoji=False,
    )


def drawing_style() -> DrawingStyle:
    """Drawn characters that this output can show: ASCII unless it is a UTF-8 terminal."""
    from bai.render.nodes.picture_text import ASCII
    from bai.render.plan.terminal import DrawingStyle

    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    if is_terminal(sys.stdout) and encoding == "utf8":
        return DrawingStyle()
    return DrawingStyle(glyphs=ASCII, bar="=", rest=".")


def print_renderable(settings: Settings, renderable: RenderableType, *, wrap: bool = True) -> None:
    """Print to a terminal as it is, elsewhere as plain lines without trailing blanks."""
    if is_terminal(sys.stdout):
        console(settings).print(renderable)
        return
    text = io.StringIO()
    console(settings, text).print(renderable, soft_wrap=not wrap)
    for line in text.getvalue().splitlines():
        print_line(line.rstrip())


def write_document(text: str) -> None:
    """JSON or Markdown for a program: UTF-8, whatever the locale says."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def print_report(settings: Settings, sections: Sequence[Section], format: PlanFormat) -> None:
    """Print a report as text or as Markdown."""
    from bai.cli.formats import PlanFormat
    from bai.render.analysis.report import render_report, render_report_markdown

    if format is PlanFormat.markdown:
        sys.stdout.write(render_report_markdown(sections))
        return
    print_renderable(settings, render_report(sections))


def print_printout(settings: Settings, found: Printout, *, markdown: bool = False) -> None:
    """Print what a command was answered; `markdown`: its reports are for a pull request."""
    from bai.cli.formats import PlanFormat
    from bai.render.printout import Overview, Report, Table

    for note in found.notes:
        print(clean(note), file=sys.stderr)
    if found.version:
        print_json(found.version, **found.document)
    for block in found.blocks:
        if isinstance(block, Table):
            print_table(settings, block.columns, block.rows, empty=block.empty)
        elif isinstance(block, Report):
            format = PlanFormat.markdown if markdown else PlanFormat.text
            print_report(settings, block.sections, format)
        elif isinstance(block, Overview):
            _print_overview(settings, block)
        else:
            _print_lines(settings, block)
    for warning in found.warnings:
        print(clean(warning), file=sys.stderr)


def _print_overview(settings: Settings, block: Overview) -> None:
    from bai.render.printout import overview_lines, render_overview

    if is_terminal(sys.stdout):
        console(settings).print(render_overview(block))
        return
    for line in overview_lines(block):
        print_line(clean(line))


def _print_lines(settings: Settings, block: Lines) -> None:
    if (plain := block.plain) is not None:
        for line in plain:
            print_line(clean(line))
        return
    from rich.console import Group

    from bai.render.printout import rich_line

    print_renderable(settings, Group(*map(rich_line, block.lines)), wrap=block.wrap)


def print_line(line: str) -> None:
    """One line on stdout, in ASCII where the encoding cannot show it."""
    try:
        sys.stdout.write(line + "\n")
    except UnicodeEncodeError:
        sys.stdout.write(ascii_only(line) + "\n")


def print_table(
    settings: Settings, columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str = ""
) -> None:
    """Aligned columns; nothing is folded or cut when piped, so that lines stay lines. `empty`: a sentence in
    place of a table without rows, where no reader takes it for a row."""
    if empty and not rows:
        print(empty, file=sys.stderr)
        return
    columns, cells = (
        [clean(column) for column in columns],
        [[clean(cell) or "-" for cell in row] for row in rows],
    )
    if is_terminal(sys.stdout):
        _rich_table(settings, columns, cells)
        return
    widths = [max(len(row[at]) for row in [list(columns), *cells]) for at in range(len(columns))]
    for row in [[column.upper() for column in columns], *cells]:
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich_table(settings: Settings, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        grid.add_column(column.upper(), overflow="fold")
    for row in rows:
        grid.add_row(*row)
    console(settings).print(grid)


def print_json(version: str, **fields: Any) -> None:
    """A JSON object with its format's version first, the same bytes for the same values."""
    document: Mapping[str, Any] = {"version": version, **fields}
    print_line(json.dumps(document, indent=2, ensure_ascii=True))


def _plain_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    width = parse_natural(columns, 1000) or 0
    return width if width >= 40 else PLAIN_WIDTH
