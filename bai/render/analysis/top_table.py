"""The live table of `bai top`, cut to the terminal's height and width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from bai.render.analysis.top_rows import COLUMNS, UsageRow, sort_by_session, usage_cells
from bai.render.humanize import plural

NAMES = 3
"""Columns that are names, not numbers."""
GAP = 2
LEAST_WANTED = ("limit", "net out", "net in", "pids", "gpu mem", "node", "gpu %", "memory")
"""Columns that go first where the terminal is narrow."""


@dataclass(frozen=True, slots=True)
class LiveTable:
    """Rows in order, as many as there is room for, and how many more there are."""

    rows: Sequence[UsageRow]
    sort: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = sort_by_session(self.rows, self.sort)
        room = max(1, (options.height or console.height) - 2)
        lines = [[cell or "-" for cell in usage_cells(row)] for row in found]
        shown = fitting_columns(lines, options.max_width)
        grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold reverse")
        for at in shown:
            grid.add_column(
                COLUMNS[at].upper(), justify="right" if at >= NAMES else "left", overflow="ellipsis"
            )
            grid.columns[-1].no_wrap = True
        for row, line in zip(found[:room], lines, strict=False):
            grid.add_row(*(line[at] for at in shown), style=_row_style(row))
        yield grid
        more = len(found) - room
        yield Text(f"and {plural(more, 'more line')}" if more > 0 else "Ctrl-C ends", "dim")


def fitting_columns(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """The columns that there is room for, those wanted least given up first."""
    needs = [max([len(name), *(len(line[at]) for line in lines)]) for at, name in enumerate(COLUMNS)]
    shown = list(range(len(COLUMNS)))
    for name in LEAST_WANTED:
        if sum(needs[at] + GAP for at in shown) - GAP <= width:
            break
        shown.remove(COLUMNS.index(name))
    return shown


def _row_style(row: UsageRow) -> str:
    """A sum stands out; a kernel near its memory limit is marked."""
    full = row.limit and row.memory is not None and row.memory * 10 >= row.limit * 9
    return "red" if full else "bold" if not row.kernel else ""
