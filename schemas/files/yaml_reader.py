"""Bytes → documents as plain values, in one pass over libyaml's events and without recursion.

Whatever makes YAML unsafe or ambiguous is refused here: duplicate keys, tags, merge keys, keys that are not
texts, alias bombs, depth, size, other encodings. `positions.py` finds the places of what is refused later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import yaml
from yaml._yaml import CParser
from yaml.error import Mark

from schemas.files.yaml_scalars import ScalarError, parse_scalar
from schemas.problems.positions import path_text
from schemas.problems.problem import Problem, SourceLocation
from schemas.problems.text import format_value, printable

LARGEST_FILE = 1024 * 1024
DEEPEST = 64
MOST_ALIASED = 100_000
"""Values that the aliases of one document may stand for."""
MOST_ALIASED_TEXT = LARGEST_FILE
"""Characters that the aliases of one file may stand for: whoever writes values out writes each of them."""
MOST_PROBLEMS = 100
"""Problems of one file that are looked for."""
MOST_DOCUMENTS = 20_000
"""Of one file; as many as fit, each with a name."""
MOST_VALUES = 20_000
"""Of one document: far more than any has, and few enough to say what is wrong with each."""


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One document: its value, its number in the file, and where it begins."""

    value: Any
    number: int
    place: SourceLocation
    sound: bool
    """False when parts were refused, so that the value is not complete."""
    size: int = 1
    """How many values it is made of, itself among them."""


class _Extent(NamedTuple):
    """Of a value: how many values it is made of, how many levels are below it, and its characters."""

    size: int
    height: int
    length: int


@dataclass(slots=True)
class _Frame:
    """A collection that is being read."""

    value: dict[Any, Any] | list[Any]
    anchor: str | None
    key: Any = None
    has_key: bool = False
    size: int = 1
    height: int = 1
    length: int = 0
    lines: dict[Any, int] = field(default_factory=dict)


class _ReadingStopped(Exception):
    """Reading of this file cannot go on."""


class YamlReader:
    """Reads one file. `documents` and `problems` are filled by `read_documents`, which never raises."""

    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file = data, file
        self.documents: list[RawDocument] = []
        self.problems: list[Problem] = []
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, _Extent]] = {}
        self._aliased = self._aliased_text = 0
        self._faults = 0
        self._begin: Mark | None = None

    def read(self) -> YamlReader:
        text = decode_utf8(self.data, self.file, self.problems)
        if text is None:
            return self
        try:
            self._walk(CParser(text))
        except yaml.MarkedYAMLError as error:
            self._syntax(error)
        except yaml.YAMLError as error:
            self._add("BAI-V005", printable(str(error).splitlines()[0]), None)
        except _ReadingStopped:
            pass
        return self

    def _walk(self, parser: CParser) -> None:
        get = parser.get_event
        while len(self.problems) < MOST_PROBLEMS:
            event = get()
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, {} if kind is yaml.MappingStartEvent else [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                self._start(event)
            elif kind is yaml.StreamEndEvent:
                return
        self.problems[-1] = too_many_problems(self.problems[-1].place)

    def _start(self, event: Any) -> None:
        if len(self.documents) >= MOST_DOCUMENTS:
            self._add("BAI-V017", f"more than {MOST_DOCUMENTS} documents", event.start_mark, "split the file")
            raise _ReadingStopped
        self._anchors.clear()
        self._aliased, self._faults = 0, len(self.problems)
        self._begin = event.start_mark

    def _scalar(self, event: Any) -> None:
        value: Any = event.value
        if event.tag is not None:
            self._tag(event)
        elif event.implicit[0]:
            try:
                value = parse_scalar(value)
            except ScalarError as error:
                self._add(error.code, error.message, event.start_mark, error.hint)
        extent = _Extent(1, 0, len(event.value))
        if event.anchor is not None:
            self._anchors[event.anchor] = value, extent
        self._put(value, extent, event, event.implicit[0])

    def _open(self, event: Any, value: dict[Any, Any] | list[Any]) -> None:
        if event.tag is not None:
            self._tag(event)
        if len(self._stack) >= DEEPEST:
            self._too_deep(event)
        if self._stack and self._expects_key(self._stack[-1]):
            self._add("BAI-V009", "a key is a mapping or a list", event.start_mark, "keys are texts")
            raise _ReadingStopped
        if not self._stack:
            self._begin = event.start_mark
        self._stack.append(_Frame(value, event.anchor))

    def _too_deep(self, event: Any) -> NoReturn:
        self._add("BAI-V006", f"nested more than {DEEPEST} levels deep", event.start_mark)
        raise _ReadingStopped

    @staticmethod
    def _expects_key(frame: _Frame) -> bool:
        return isinstance(frame.value, dict) and not frame.has_key

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        extent = _Extent(frame.size, frame.height, frame.length)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = frame.value, extent
        self._put(frame.value, extent, event, False)

    def _alias(self, event: Any) -> None:
        if any(frame.anchor == event.anchor for frame in self._stack):
            self._add(
                "BAI-V007", f"*{printable(event.anchor)} stands inside of what it names", event.start_mark
            )
            raise _ReadingStopped
        if event.anchor not in self._anchors:
            self._add("BAI-V005", f"*{printable(event.anchor)} names no anchor before it", event.start_mark)
            raise _ReadingStopped
        value, extent = self._anchors[event.anchor]
        self._aliased += extent.size
        self._aliased_text += extent.length
        if self._aliased > MOST_ALIASED or self._aliased_text > MOST_ALIASED_TEXT:
            most = f"{MOST_ALIASED} values"
            if self._aliased <= MOST_ALIASED:
                most = f"{MOST_ALIASED_TEXT} characters in this file"
            self._add("BAI-V007", f"aliases stand for more than {most}", event.start_mark)
            raise _ReadingStopped
        if len(self._stack) + extent.height > DEEPEST:
            self._too_deep(event)
        self._put(value, extent, event, False)

    def _put(self, value: Any, extent: _Extent, event: Any, is_plain: bool) -> None:
        """Put a value where it belongs."""
        if not self._stack:
            self._document(value, event, extent.size)
            return
        frame = self._stack[-1]
        frame.size += extent.size
        frame.height = max(frame.height, extent.height + 1)
        frame.length += extent.length
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.has_key:
            frame.value[frame.key] = value
            frame.has_key = False
        else:
            self._key(frame, value, event, is_plain)

    def _key(self, frame: _Frame, key: Any, event: Any, is_plain: bool) -> None:
        mark = event.start_mark
        frame.has_key, frame.key = True, key
        if key == "<<" and is_plain:
            self._add("BAI-V011", "merge keys are not supported", mark, "write the merged keys out")
        elif not isinstance(key, str):
            what = (
                f"the key {format_value(key)} is not a text"
                if not isinstance(key, dict | list)
                else "a key is a mapping or a list"
            )
            self._add(
                "BAI-V009", what, mark, f'write "{format_value(key)}"' if isinstance(key, int | float) else ""
            )
            key = str(key)[:100]
        elif key in frame.lines:
            self._add(
                "BAI-V008",
                f"{format_value(key)} stands twice, first on line {frame.lines[key]}",
                mark,
                "remove one of the two",
            )
        else:
            frame.lines[key] = mark.line + 1
        frame.key = key

    def _document(self, value: Any, event: Any, size: int) -> None:
        number = len(self.documents)
        sound = len(self.problems) == self._faults
        mark = self._begin or event.start_mark
        place = SourceLocation(self.file, mark.line + 1, mark.column + 1)
        self.documents.append(RawDocument(value, number, place, sound, size))

    def _tag(self, event: Any) -> None:
        tag = (
            "a tag"
            if event.tag == "!"
            else f"the tag {format_value(event.tag.replace('tag:yaml.org,2002:', '!!'))}"
        )
        self._add(
            "BAI-V010", f"{tag} is not allowed", event.start_mark, "remove it; use quotes to make a text"
        )

    def _syntax(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        context = f" ({error.context})" if error.context else ""
        self._add(
            "BAI-V005",
            printable(f"{error.problem or 'not YAML'}{context}"),
            mark,
            _syntax_hint(self.data, mark),
        )

    def _path(self) -> str:
        """The path of what is being read."""
        steps: list[str | int] = []
        for frame in self._stack:
            if isinstance(frame.value, list):
                steps.append(len(frame.value))
            elif frame.has_key:
                steps.append(frame.key if isinstance(frame.key, str) else format_value(frame.key))
        return printable(path_text(tuple(steps)))

    def _add(self, code: str, message: str, mark: Mark | None, hint: str = "") -> None:
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        self.problems.append(
            Problem(SourceLocation(self.file, line, column), code, self._path(), message, hint)
        )


def too_many_problems(place: SourceLocation) -> Problem:
    """What is said in place of all further problems of a file."""
    message = f"more than {MOST_PROBLEMS} mistakes up to here; the rest of the file was not looked at"
    return Problem(place, "BAI-V018", "", message, "is it meant for bai? If so, correct the first ones")


def _syntax_hint(data: bytes, mark: Mark | None) -> str:
    """A tab in the indentation is the mistake that a parser's own message hides best."""
    lines = data.split(b"\n")
    for at in (mark.line, mark.line - 1) if mark is not None else ():
        if 0 <= at < len(lines) and b"\t" in lines[at][: len(lines[at]) - len(lines[at].lstrip())]:
            return "indent with spaces, not with tabs"
    return ""


def decode_utf8(data: bytes, file: str, problems: list[Problem]) -> str | None:
    """The text of a file, or None with the problem that it is too large or not UTF-8."""
    if len(data) > LARGEST_FILE:
        message = f"{len(data)} bytes; a file of documents holds at most {LARGEST_FILE}"
        problems.append(Problem(SourceLocation(file), "BAI-V002", "", message, "split it"))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        problems.append(
            Problem(SourceLocation(file, line, column), "BAI-V003", "", message, "save the file as UTF-8")
        )
        return None


def read_documents(data: bytes, file: str) -> tuple[list[RawDocument], list[Problem]]:
    """Every document of a file, and everything wrong with its YAML. Never raises."""
    reader = YamlReader(data, file).read()
    return reader.documents, reader.problems
