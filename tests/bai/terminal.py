"""A terminal without a window: what a command leaves on it, line by line, as a person sees it."""

from __future__ import annotations

import io
import re
from itertools import groupby
from typing import NamedTuple

from rich.ansi import AnsiDecoder
from rich.text import Text

_SEQUENCE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])")


class Cell(NamedTuple):
    """One character, and the sequence that set its colours; empty for none."""

    text: str
    style: str


BLANK = Cell(" ", "")


class Terminal(io.StringIO):
    """A stream in place of stdout. It knows what `rich` sends: colours, lines gone back and erased, and a
    cursor that is hidden; what is longer than its width goes on in the next line, wherever that breaks it.

    Raises ValueError for other sequences.
    """

    encoding = "utf-8"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self._broken: set[int] = set()

    def isatty(self) -> bool:
        return True

    def screen(self) -> Text:
        """What stands there now, with its colours and without what was erased."""
        decoder = AnsiDecoder()
        lines = [_encoded(row) for row in self._rows()]
        return Text("\n").join(decoder.decode_line(line) for line in lines)

    def broken_lines(self) -> list[str]:
        """Lines that only the terminal broke, wherever its width ended."""
        rows = self._rows()
        return ["".join(cell.text for cell in rows[at]) for at in sorted(self._broken) if at < len(rows)]

    def _rows(self) -> list[list[Cell]]:
        self._broken.clear()
        rows: list[list[Cell]] = [[]]
        row, column, style, at = 0, 0, "", 0
        sent = self.getvalue()
        while at < len(sent):
            found = _SEQUENCE.match(sent, at)
            if found is not None:
                row, column, style = _obey(found, rows, (row, column, style))
                at = found.end()
                continue
            letter, at = sent[at], at + 1
            if letter == "\r":
                column = 0
                continue
            if letter == "\n" or column == self.width:
                if letter != "\n":
                    self._broken.add(row)
                row, column = row + 1, 0
                rows += [[] for _ in range(row + 1 - len(rows))]
            if letter != "\n":
                line = rows[row]
                line += [BLANK] * (column + 1 - len(line))
                line[column] = Cell(letter, style)
                column += 1
        while rows and not rows[-1]:
            rows.pop()
        return rows


def _obey(found: re.Match[str], rows: list[list[Cell]], state: tuple[int, int, str]) -> tuple[int, int, str]:
    """Row, column and style after a sequence."""
    row, column, style = state
    match found[2]:
        case "m":
            return row, column, "" if found[1] in ("", "0") else style + found[0]
        case "A":
            return max(0, row - int(found[1] or 1)), column, style
        case "K" if found[1] == "2":
            rows[row].clear()
            return state
        case "h" | "l" if found[1] == "?25":
            return state
    raise ValueError(f"unknown sequence {found[0]!r}")


def _encoded(row: list[Cell]) -> str:
    runs = ((style, "".join(cell.text for cell in cells)) for style, cells in groupby(row, lambda c: c.style))
    return "".join(f"{style}{text}\x1b[0m" if style else text for style, text in runs)
