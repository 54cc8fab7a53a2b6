"""Text as a tool printed it: without what its way put into it, and parted by the tools that it is of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_COLORS = re.compile(r"\x1b\[[0-9;]*[mK]")
_QUOTE = re.compile(r"[ \t]*> ?")
_COMMENT = re.compile(r"[ \t]*#(?:[ \t]|(?=[\r\n]|\Z))")
"""What mail, forges and comments put before each line."""
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class PlainText:
    """`cut`: how many characters were taken from the front of each line; empty for none."""

    text: str
    cut: Sequence[int] = ()

    def column(self, line: int, column: int) -> int:
        """Where a place of the text stood before; both count from 1."""
        return column + (self.cut[line - 1] if line <= len(self.cut) else 0)


def plain_text(text: str) -> PlainText:
    """Without colours, what indents all lines, and what quotes them. Quoted lines lie side by side, two at
    least, with prose around them; comments have prose before them alone, as `lscpu -p` has comments before
    its rows."""
    text = _COLORS.sub("", text)
    lines = text.splitlines(keepends=True)
    cut = [0] * len(lines)
    for _ in range(_DEEPEST):
        _cut_indentation(lines, cut)
        if not (_cut_marks(lines, cut, _QUOTE) or _cut_marks(lines, cut, _COMMENT, to_the_end=True)):
            break
    return PlainText("".join(lines), cut) if any(cut) else PlainText(text)


def _cut_indentation(lines: list[str], cut: list[int]) -> None:
    said = [at for at, line in enumerate(lines) if line.strip()]
    indents = {lines[at][: len(lines[at]) - len(lines[at].lstrip(" \t"))] for at in said}
    if len(said) < 2 or not all(indents):
        return
    # What the first and the last in order share, all share.
    first, last = min(indents), max(indents)
    width = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    for at in said:
        lines[at] = lines[at][width:]
        cut[at] += width


def _cut_marks(lines: list[str], cut: list[int], mark: re.Pattern[str], *, to_the_end: bool = False) -> bool:
    """Whether there were any, which are gone then."""
    marked = {at: found.end() for at, line in enumerate(lines) if (found := mark.match(line))}
    if len(marked) < 2:
        return False
    first, last = min(marked), len(lines) - 1 if to_the_end else max(marked)
    if any(at not in marked and lines[at].strip() for at in range(first, last + 1)):
        return False
    for at, width in marked.items():
        lines[at] = lines[at][width:]
        cut[at] += width
    return True


def part_by_owner(text: str, begins: Sequence[Callable[[str], bool]]) -> list[tuple[int, str]]:
    """(number of the owner, text) of each that a line says to begin; further lines are of who began last.
    Lines of others are empty in each text, so that places stay what they are."""
    lines = text.splitlines(keepends=True)
    owners: list[int] = []
    owner = -1
    for line in lines:
        if line.strip():
            owner = next((number for number, begin in enumerate(begins) if begin(line)), owner)
        owners.append(owner)
    return [
        (number, "".join(line if of == number else "\n" for of, line in zip(owners, lines, strict=True)))
        for number in sorted({*owners} - {-1})
    ]
