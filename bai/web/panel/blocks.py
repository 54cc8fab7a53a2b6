"""What commands answer, made ready for templates: which block is which, and classes in place of styles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from bai.render.printout import Lines, Overview, Printout, Report, Table, style_words

if TYPE_CHECKING:
    from bai.web.pass_view import PassView

_PRINTOUT = TypeAdapter(Printout)
_AMOUNT = re.compile(r"[<≤~]?[-+]?\d[\d,]*(\.\d+)?\s?(%|[A-Za-z]{0,4})(/\d[\d,.]*\s?(%|[A-Za-z]{0,4}))?")
"""`16`, `64GiB`, `3/8`, `12.5 %`."""


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table. `is_amount`: which columns have amounts, which are read by their last digits."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str
    is_amount: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class SectionBlock:
    """A title and what stands under it."""

    title: str
    level: int
    parts: tuple[str | TableBlock, ...]


@dataclass(frozen=True, slots=True)
class ReportBlock:
    """Sections in their order."""

    sections: tuple[SectionBlock, ...]


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """Lines about one thing; `classes` as an attribute has them."""

    name: str
    lines: tuple[str, ...]
    classes: str


@dataclass(frozen=True, slots=True)
class OverviewBlock:
    """Entries below each other."""

    entries: tuple[EntryBlock, ...]


@dataclass(frozen=True, slots=True)
class SpanBlock:
    """A piece of a line."""

    text: str
    classes: str


@dataclass(frozen=True, slots=True)
class LinesBlock:
    """Lines of pieces."""

    lines: tuple[tuple[SpanBlock, ...], ...]
    wrap: bool


Block = TableBlock | ReportBlock | OverviewBlock | LinesBlock


def redacted(view: PassView, printout: Printout) -> Printout:
    """What a command prints, without the names that are not for the viewer."""
    return _PRINTOUT.validate_python(view.redact(_PRINTOUT.dump_python(printout, mode="json")))


def block_kinds(printout: Printout) -> list[tuple[str, Block]]:
    """The blocks in their order, each with its kind: `table`, `report`, `overview` or `lines`."""
    return list(_kinds(printout))


def _kinds(printout: Printout) -> Iterator[tuple[str, Block]]:
    for block in printout.blocks:
        match block:
            case Table():
                yield "table", table_block(block)
            case Report():
                yield "report", _report_block(block)
            case Overview():
                entries = tuple(EntryBlock(e.name, e.lines, style_classes(e.style)) for e in block.entries)
                yield "overview", OverviewBlock(entries)
            case Lines():
                yield "lines", _lines_block(block)


def table_block(table: Table) -> TableBlock:
    """A table for the macro `table`."""
    width = max((len(row) for row in table.rows), default=len(table.columns))
    amounts = tuple(_has_amounts(table, at) for at in range(max(width, len(table.columns))))
    return TableBlock(table.columns, table.rows, table.empty, amounts)


def _has_amounts(table: Table, at: int) -> bool:
    cells = {row[at] for row in table.rows if len(row) > at} - {"", "-"}
    return bool(table.columns) and bool(cells) and all(_AMOUNT.fullmatch(cell) for cell in cells)


def _report_block(report: Report) -> ReportBlock:
    return ReportBlock(
        tuple(
            SectionBlock(
                section.title,
                section.level,
                tuple(table_block(part) if isinstance(part, Table) else part for part in section.parts),
            )
            for section in report.sections
        )
    )


def _lines_block(block: Lines) -> LinesBlock:
    lines = (tuple(SpanBlock(s.text, style_classes(s.style)) for s in spans) for spans in block.lines)
    return LinesBlock(tuple(lines), block.wrap)


def style_classes(style: str) -> str:
    """`bold red` → `s-bold s-red`: classes of the style sheet."""
    words, found = iter(style_words(style)), list[str]()
    for word in words:
        if word == "not":
            found = [each for each in found if each != f"s-{next(words, '')}"]
        elif word != "default":
            found.append(f"s-{word}")
    return " ".join(dict.fromkeys(found))
