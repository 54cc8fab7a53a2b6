"""What a reading command prints, as a value: made where a cluster is looked at, which may be a server, and
printed where somebody reads it, at that terminal's width and in its colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bai.render.humanize import clean

if TYPE_CHECKING:  # Who prints plain lines or tables to a pipe does without it.
    from rich.console import RenderableType
    from rich.text import Text

_MARGIN = 11
"""Columns of an overview's names."""
_STYLE_WORDS = frozenset(
    {"bold", "dim", "italic", "underline", "not", "default"}
    | {"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}
)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line in one style of rich's, `bold red`."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of spans. `wrap`: those that are too long for a pipe's width are wrapped there as well."""

    lines: tuple[tuple[Span, ...], ...]
    wrap: bool = True

    @property
    def plain(self) -> tuple[str, ...] | None:
        """Their words, where no line has a style."""
        if any(span.style for spans in self.lines for span in spans):
            return None
        return tuple("".join(span.text for span in spans) for spans in self.lines)


@dataclass(frozen=True, slots=True)
class Table:
    """Words in columns; without `columns` it has no head. `empty`: a sentence in place of a table without
    rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A title, and what stands under it in this order."""

    title: str
    parts: tuple[str | Table, ...] = ()
    level: int = 1
    """1 for a heading of the report, 2 below one."""


@dataclass(frozen=True, slots=True)
class Report:
    """Titled lines and tables, also for Markdown."""

    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """Lines about one thing, in one style of rich's."""

    name: str
    lines: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """Entries below each other, their names in a margin."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Printout:
    """`document` is what `--format json` prints, with `version` for its format; else there are `blocks`."""

    version: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[Table | Report | Overview | Lines, ...] = ()
    notes: tuple[str, ...] = ()
    """For stderr, before everything else."""
    warnings: tuple[str, ...] = ()
    """For stderr, after everything else."""


def plain_lines(lines: Iterable[str]) -> Lines:
    """Lines without a style."""
    return Lines(tuple((Span(line),) for line in lines))


def styled_lines(texts: Iterable[Text], *, wrap: bool = True) -> Lines:
    """Lines of rich's, taken apart into spans."""
    return Lines(tuple(_spans(text) for text in texts), wrap)


def overview_lines(overview: Overview) -> Iterator[str]:
    """A line for each thing."""
    for entry in overview.entries:
        for name, line in _named(entry):
            yield f"{name:{_MARGIN}}{line}"


def render_overview(overview: Overview) -> RenderableType:
    """The same for a terminal: what is longer than a line goes on below itself."""
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid()
    grid.add_column(width=_MARGIN, style="dim")
    grid.add_column(overflow="fold")
    for entry in overview.entries:
        for name, line in _named(entry):
            grid.add_row(Text(clean(name)), rich_line((Span(line, entry.style),)))
    return grid


def _named(entry: Entry) -> Iterator[tuple[str, str]]:
    """The lines, the name beside the first."""
    for at, line in enumerate(entry.lines):
        yield entry.name if at == 0 else "", line


def rich_line(spans: Iterable[Span]) -> Text:
    """A line to print. What it says may come from anywhere: control characters are shown as such, and a style
    that is more than colour and weight (a link, say) is left out."""
    from rich.text import Text

    line = Text()
    for span in spans:
        line.append(clean(span.text), span.style if style_words(span.style) else "")
    return line


def style_words(style: str) -> tuple[str, ...]:
    """The words of a style of rich's, bright colours as plain ones; none where one is more than colour and
    weight."""
    words = tuple(style.replace("bright_", "").split())
    return words if set(words) <= _STYLE_WORDS else ()


def _spans(text: Text) -> tuple[Span, ...]:
    cuts = sorted({0, len(text), *(edge for each in text.spans for edge in (each.start, each.end))})
    found = []
    for begin, end in pairwise(cuts):
        styles = [text.style, *(each.style for each in text.spans if each.start <= begin < each.end)]
        found.append(Span(text.plain[begin:end], " ".join(str(style) for style in styles if style)))
    return tuple(found)
