"""One style for every document: fields in the order of the reference, two spaces, at most one blank line.

Lines are moved and indented, never rewritten, and comments go with what they stand above. The result is read
again and must mean the same, with every line still there; otherwise the text stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel

from schemas.files.yaml_layout import LayoutDocument, LayoutNode, UnsupportedLayout, parse_layout
from schemas.files.yaml_reader import read_documents
from schemas.kinds.kind_registry import KINDS
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.issues import Loc
from schemas.problems.model_errors import fields_at

STEP = 2
_KEPT = "\x00"
"""Stands for a blank line that is part of a value, so that it is not tidied away."""
OTHER_BREAKS = "\r\x85\u2028\u2029"
"""What YAML counts as line breaks beside the usual."""
ENVELOPE = ("apiVersion", "kind", "metadata", "spec")


def format_text(data: bytes, file: str = "") -> str:
    """The text in bai's style; formatting twice changes nothing more.

    Raises InvalidRepository, with every place, when the file is not readable YAML.
    """
    documents, problems = read_documents(data, file)
    if problems:
        raise InvalidRepository(tuple(problems), where=file or "the text")
    written = data.decode("utf-8-sig")
    text = written.replace("\r\n", "\n")
    if "\r" in text:
        return written
    made = _format(text)
    again, refused = read_documents(made.encode(), file)
    same = not refused and [raw.value for raw in again] == [raw.value for raw in documents]
    return made if same and _content_lines(made) == _content_lines(text) and _format(made) == made else text


def _format(text: str) -> str:
    """The text in the style, or as it is when it holds something unusual."""
    try:
        return _Formatter(text).run()
    except UnsupportedLayout:
        return text


def _content_lines(text: str) -> list[str]:
    """Every line's content in any order, dashes apart: what no formatting may lose."""
    return sorted(line.strip().lstrip("- ") for line in text.split("\n") if line.strip().lstrip("- "))


@dataclass(frozen=True, slots=True)
class ModelPath:
    """Which model a document has, and the path within it."""

    model: type[BaseModel] | None
    loc: Loc = ()

    def below(self, step: str | int) -> ModelPath:
        return ModelPath(self.model, (*self.loc, step))


class _Formatter:
    """Writes one text again, document by document."""

    def __init__(self, text: str) -> None:
        if any(mark in text for mark in OTHER_BREAKS):
            raise UnsupportedLayout
        self.lines = text.split("\n")
        self.parts = parse_layout(text)

    def run(self) -> str:
        out: list[str] = []
        for number, part in enumerate(self.parts):
            begin, end = self._region(number)
            body = self._document(part, begin, end)
            if number == 0 and part.marker is not None:
                out += _tidy_blank_lines(self._comments(0, part.marker, 0))
            if number or part.marker is not None:
                out.append("---")
            out += body
        if not self.parts:
            out = _tidy_blank_lines(self._comments(0, len(self.lines), 0))
        return "\n".join(out).replace(_KEPT, "") + "\n" if out else ""

    def _region(self, number: int) -> tuple[int, int]:
        marker = self.parts[number].marker
        if marker is not None and self.lines[marker].rstrip() != "---":
            raise UnsupportedLayout
        following = self.parts[number + 1].marker if number + 1 < len(self.parts) else len(self.lines)
        if following is None:
            raise UnsupportedLayout
        return (0 if marker is None else marker + 1), following

    def _document(self, part: LayoutDocument, begin: int, end: int) -> list[str]:
        root = part.root
        if root is None or root.empty:
            return _tidy_blank_lines(self._comments(begin, end, 0))
        if not (root.block and root.mapping):
            return _tidy_blank_lines(
                self._comments(begin, root.line, 0)
                + self.lines[root.line : root.last + 1]
                + self._comments(root.last + 1, end, 0)
            )
        while end > root.last + 1 and not self.lines[end - 1].strip():
            end -= 1  # blank lines at the end belong to no entry, whichever comes last
        head = self._comments(begin, root.line, 0)
        return _tidy_blank_lines(
            head + self._mapping(root, root.line, end, 0, ModelPath(_document_model(root)))
        )

    def _block(self, shape: LayoutNode, begin: int, end: int, column: int, at: ModelPath) -> list[str]:
        write = self._mapping if shape.mapping else self._sequence
        return write(shape, begin, end, column, at)

    def _mapping(self, shape: LayoutNode, begin: int, end: int, column: int, at: ModelPath) -> list[str]:
        bounds = self._entry_bounds(
            [(key.line, value.last) for key, value in shape.entries], begin, end, shape.column
        )
        written = []
        for (key, value), (first, last) in zip(shape.entries, bounds, strict=True):
            name = key.text or ""
            lines = self._comments(first, key.line, column)
            lines += self._entry(key, value, last, column, at.below(name))
            written.append((name, lines))
        return _without_leading_blanks(
            [line for _, lines in sorted(written, key=_key_order(at)) for line in lines]
        )

    def _entry(self, key: LayoutNode, value: LayoutNode, end: int, column: int, at: ModelPath) -> list[str]:
        if not value.block:
            return self._move_value(key, value, end, column)
        if value.line <= key.line:
            raise UnsupportedLayout
        first = " " * column + self.lines[key.line][key.column :].rstrip()
        between = self._comments(key.line + 1, value.line, column + STEP)
        tail = self._comments_end(value, end)
        lines = self._block(value, value.line, tail, column + STEP, at)
        return [first, *between, *lines, *self._comments(tail, end, column)]

    def _sequence(self, shape: LayoutNode, begin: int, end: int, column: int, at: ModelPath) -> list[str]:
        dashes = self._dash_lines(shape)
        spans = [(dash, max(dash, item.last)) for dash, item in zip(dashes, shape.items, strict=True)]
        bounds = self._entry_bounds(spans, begin, end, shape.column)
        out: list[str] = []
        for index, (item, dash, (first, last)) in enumerate(zip(shape.items, dashes, bounds, strict=True)):
            out += self._comments(first, dash, column)
            out += self._item(LayoutNode(dash, shape.column, dash), item, last, column, at.below(index))
        return out

    def _item(self, dash: LayoutNode, item: LayoutNode, end: int, column: int, at: ModelPath) -> list[str]:
        """One item; `dash` is where its dash stands."""
        rest = self.lines[dash.line][dash.column + 1 :].strip()
        first = f"{' ' * column}- {rest}".rstrip()
        if item.empty:
            return [first, *self._comments(dash.line + 1, end, column)]
        if not item.block:
            return [first, *self._move_value(dash, item, end, column)[1:]]
        tail = self._comments_end(item, end)
        after = self._comments(tail, end, column)
        lines = [*self._block(item, item.line, tail, column + STEP, at), *after]
        if item.line > dash.line:
            return [first, *self._comments(dash.line + 1, item.line, column + STEP), *lines]
        key = next(n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
        lines[key] = " " * column + "- " + lines[key].lstrip()
        return [*(_indent(line, column) for line in lines[:key]), *lines[key:]]

    def _dash_lines(self, shape: LayoutNode) -> list[int]:
        """The line of each item's dash."""
        found = [shape.line]
        for item in shape.items[:-1]:
            line = max(found[-1], item.last if not item.empty else found[-1]) + 1
            while line < len(self.lines) and not self.lines[line][shape.column :].startswith("-"):
                line += 1
            if line >= len(self.lines):
                raise UnsupportedLayout
            found.append(line)
        return found

    def _move_value(self, key: LayoutNode, value: LayoutNode, end: int, column: int) -> list[str]:
        """A scalar or flow collection as it stands, all of its lines moved sideways together."""
        first = " " * column + self.lines[key.line][key.column :].rstrip()
        below = [_shift(line, column - key.column) for line in self.lines[key.line + 1 : value.last + 1]]
        if not value.literal:
            below = [line.rstrip() for line in below]
        return [first, *(line or _KEPT for line in below), *self._comments(value.last + 1, end, column)]

    def _entry_bounds(
        self, spans: list[tuple[int, int]], begin: int, end: int, column: int
    ) -> list[tuple[int, int]]:
        """For each entry the first line of its comments, and the line after all that belongs to it."""
        starts = [
            begin if number == 0 else self._comments_begin(spans[number - 1][1] + 1, first, column)
            for number, (first, _) in enumerate(spans)
        ]
        return list(zip(starts, [*starts[1:], end], strict=True))

    def _comments_begin(self, after: int, line: int, column: int) -> int:
        """Where an entry's comments begin: deeper ones right after the entry before belong to that one."""
        for number in range(after, line):
            text = self.lines[number]
            if text.strip() and len(text) - len(text.lstrip()) <= column:
                return self._blank_before(number, after)
        return self._blank_before(line, after)

    def _blank_before(self, line: int, after: int) -> int:
        while line > after and not self.lines[line - 1].strip():
            line -= 1
        return line

    def _comments_end(self, shape: LayoutNode, end: int) -> int:
        """Where the comments after a collection stop being its own: at the first that stands less deep."""
        for number in range(shape.last + 1, end):
            text = self.lines[number]
            if text.strip() and len(text) - len(text.lstrip()) < shape.column:
                return number
        return end

    def _comments(self, begin: int, end: int, column: int) -> list[str]:
        """Comment and blank lines, indented; anything else there is a construct that is not understood."""
        out = []
        for line in self.lines[begin:end]:
            if line.strip() and not line.lstrip().startswith("#"):
                raise UnsupportedLayout
            out.append(_indent(line, column))
        return out


def _indent(line: str, column: int) -> str:
    return " " * column + line.strip() if line.strip() else ""


def _shift(line: str, shift: int) -> str:
    if not line.strip():
        return line[-shift:] if shift < 0 else line
    if shift >= 0:
        return " " * shift + line
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(-shift, spaces) :]


def _without_leading_blanks(lines: list[str]) -> list[str]:
    """Without blank lines at the beginning."""
    first = next((number for number, line in enumerate(lines) if line), len(lines))
    return lines[first:]


def _tidy_blank_lines(lines: list[str]) -> list[str]:
    """Without blank lines at both ends, and never two in a row."""
    out: list[str] = []
    for line in lines:
        if line or (out and out[-1]):
            out.append(line)
    while out and not out[-1]:
        out.pop()
    return out


def _document_model(root: LayoutNode) -> type[BaseModel] | None:
    kind = next((value.text for key, value in root.entries if key.text == "kind"), None)
    return KINDS.get(kind or "")


def _key_order(at: ModelPath) -> Callable[[tuple[str, list[str]]], int]:
    """The order of a mapping's keys: of the model's fields; others after them, as they stand."""
    names = list(fields_at(at.model, at.loc)) if at.model else []
    if not at.loc:
        names = list(ENVELOPE)
    return lambda entry: names.index(entry[0]) if entry[0] in names else len(names)
