"""Small changes to a YAML text: one field set or taken out, one document taken out; every other byte stays.

What was changed is read again and must mean exactly what it meant, but for the change; otherwise nothing is
given back. Constructs for which that cannot be promised are left to a person.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml
from yaml._yaml import CParser

from schemas.files.yaml_layout import UnsupportedLayout
from schemas.files.yaml_reader import read_documents

_OTHER_BREAKS = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
"""What YAML counts as line breaks beside the usual."""
_BOM = "\ufeff"


@dataclass(slots=True)
class _Node:
    """A value in the text, from `start` to before `end`."""

    start: int
    end: int
    column: int
    text: str | None = None
    """Of a scalar."""
    plain: bool = False
    """A scalar on one line, without anchor or tag, that can be written over."""
    block: bool = False
    mapping: bool = False
    entries: list[tuple[_Node, _Node]] = field(default_factory=list)
    """Keys and values of a mapping."""


@dataclass(slots=True)
class _Span:
    """A document: where it begins, with its `---` where it has one, and what it is."""

    start: int
    root: _Node | None = None


class _Splice(NamedTuple):
    """What stands from `start` to before `end` is `text` afterwards."""

    start: int
    end: int
    text: str


FieldValue = bool | int | str | None
"""Of a field: a text is a plain word."""


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """A field of a section (a mapping at the top of a document); `order`: of the section's fields."""

    section: str
    key: str
    order: Sequence[str]


def set_field(data: bytes, edit: FieldEdit, values: Mapping[int, FieldValue]) -> bytes:
    """The text with the field of these documents (by number, from 0) set to a value; None takes it out.

    A new field gets a line of its own, after those that come before it in the section. A field that cannot be
    taken out by itself, because a comment stands beside it or it is all that there is, becomes `false`.
    Raises UnsupportedLayout.
    """
    text, mark = _decoded(data)
    spans = _spans(text)
    wanted = dict(values)
    splices = []
    for number, value in values.items():
        section = _section(spans[number].root if number < len(spans) else None, edit.section)
        found = next((entry for entry in section.entries if entry[0].text == edit.key), None)
        if found is None:
            splices += [] if value is None else [_new_entry(text, section, edit, value)]
            continue
        gone = _without_entry(text, section, found) if value is None else None
        wanted[number] = value = False if value is None and gone is None else value
        splices.append(gone or _written_over(found[1], value))

    def change(documents: list[Any]) -> None:
        for number, value in wanted.items():
            section = documents[number][edit.section]
            if value is None:
                section.pop(edit.key, None)
            else:
                section[edit.key] = value

    return _checked(text, _spliced(text, splices), mark, change)


def without_documents(data: bytes, numbers: Collection[int]) -> bytes | None:
    """The text without these documents (by number, from 0), with the comments in them; None when no other
    document is left. Raises UnsupportedLayout."""
    text, mark = _decoded(data)
    spans = _spans(text)
    if not any(span.root is not None for at, span in enumerate(spans) if at not in numbers):
        return None
    ends = [*(span.start for span in spans[1:]), len(text)]
    splices = [_Splice(spans[number].start, ends[number], "") for number in numbers]

    def change(documents: list[Any]) -> None:
        documents[:] = [each for at, each in enumerate(documents) if at not in numbers]

    return _checked(text, _spliced(text, splices), mark, change)


def document_text(data: bytes, number: int) -> str:
    """One document (by number, from 0) as it is written, with its comments, without its `---`. Raises
    UnsupportedLayout."""
    text, _ = _decoded(data)
    start, end = _document_range(text, number)
    return text[start:end]


def with_document(data: bytes, number: int, new: str) -> bytes:
    """The text with another document in place of this one (by number, from 0). Raises UnsupportedLayout,
    also where `new` is not one document."""
    text, mark = _decoded(data)
    start, end = _document_range(text, number)
    made, problems = read_documents(new.encode(), "")
    if problems or len(made) != 1:
        raise UnsupportedLayout
    body = new.rstrip() + "\n"

    def change(documents: list[Any]) -> None:
        documents[number] = made[0].value

    return _checked(text, _spliced(text, [_Splice(start, end, body)]), mark, change)


def _document_range(text: str, number: int) -> tuple[int, int]:
    """From where to where it stands, after the line of its `---`."""
    spans = _spans(text)
    if number >= len(spans) or spans[number].root is None:
        raise UnsupportedLayout
    start = spans[number].start
    end = spans[number + 1].start if number + 1 < len(spans) else len(text)
    if not text.startswith("---", start):
        return start, end
    below = _line_end(text, start + len("---"))
    if text[start:below].strip() != "---":
        raise UnsupportedLayout
    return below, end


def _spliced(text: str, splices: Iterable[_Splice]) -> str:
    parts, done = [], 0
    for start, end, new in sorted(splices):
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def _decoded(data: bytes) -> tuple[str, str]:
    """The text, and the mark that stood before it."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsupportedLayout from None
    mark = _BOM if text.startswith(_BOM) else ""
    if _OTHER_BREAKS.search(text):
        raise UnsupportedLayout
    return text.removeprefix(_BOM), mark


def _checked(text: str, made: str, mark: str, change: Callable[[list[Any]], object]) -> bytes:
    """`made`, if it means what `text` means after the change."""
    before, problems = read_documents(text.encode(), "")
    after, refused = read_documents(made.encode(), "")
    wanted = copy.deepcopy([raw.value for raw in before])
    change(wanted)
    if problems or refused or [raw.value for raw in after] != wanted:
        raise UnsupportedLayout
    return (mark + made).encode()


def _written(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _section(root: _Node | None, name: str) -> _Node:
    entries = root.entries if root is not None else []
    found = next((value for key, value in entries if key.text == name), None)
    if found is None or not found.mapping:
        raise UnsupportedLayout
    return found


def _written_over(node: _Node, value: FieldValue) -> _Splice:
    if not node.plain or value is None:
        raise UnsupportedLayout
    return _Splice(node.start, node.end, _written(value))


def _new_entry(text: str, section: _Node, edit: FieldEdit, value: bool | int | str) -> _Splice:
    line = f"{edit.key}: {_written(value)}"
    if not section.block:
        inside = section.start + 1
        return _Splice(inside, inside, line + (", " if section.entries else ""))
    before = edit.order[: edit.order.index(edit.key)]
    earlier = [value.end for key, value in section.entries if key.text in before]
    # The first of all goes right below its section's name; whatever comments follow belong to the next.
    if earlier:
        at = _line_end(text, _last_content(text, max(earlier)))
    else:
        at = _comments_start(text, _line_start(text, section.start))
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if at == 0 or text[at - 1] == "\n" else newline
    return _Splice(at, at, f"{gap}{' ' * section.column}{line}{newline}")


def _last_content(text: str, at: int) -> int:
    """After the last that is no white space before `at`: a block scalar's end may lie behind blank lines."""
    while at and text[at - 1].isspace():
        at -= 1
    return at


def _comments_start(text: str, at: int) -> int:
    """The beginning of the comment and blank lines right above the line that begins at `at`."""
    while at:
        above = _line_start(text, at - 1)
        line = text[above : at - 1].strip()
        if line and not line.startswith("#"):
            return at
        at = above
    return at


def _without_entry(text: str, section: _Node, entry: tuple[_Node, _Node]) -> _Splice | None:
    """In block style its line goes; None where that would take something else with it."""
    key, value = entry
    if not value.plain or len(section.entries) == 1:
        return None
    if section.block:
        start, end = _line_start(text, key.start), _line_end(text, value.end)
        alone = not text[start : key.start].strip() and not text[value.end : end].strip()
        return _Splice(start, end, "") if alone else None
    following = re.compile(r"[ \t]*,[ \t]*").match(text, value.end)
    return _Splice(key.start, following.end(), "") if following else None


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Where the line that `at` is in ends, or began where `at` is the beginning of the next."""
    if at and text[at - 1] == "\n":
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _spans(text: str) -> list[_Span]:
    found: list[_Span] = []
    events = _events(text)
    event: Any
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            if event.version or event.tags:
                raise UnsupportedLayout
            found.append(_Span(_index(event.start_mark) if event.explicit else 0))
        elif isinstance(event, yaml.DocumentEndEvent):
            if event.explicit:
                raise UnsupportedLayout
        elif not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent):
            node = _read_node(event, events)
            found[-1].root = None if node.text == "" and node.plain else node
    return found


def _events(text: str) -> Iterator[Any]:
    parser = CParser(text)
    try:
        while True:
            event = parser.get_event()
            yield event
            if isinstance(event, yaml.StreamEndEvent):
                return
    except yaml.YAMLError:
        raise UnsupportedLayout from None


def _index(mark: Any) -> int:
    return int(mark.index)


def _read_node(event: Any, events: Iterator[Any]) -> _Node:
    mark, end = event.start_mark, event.end_mark
    node = _Node(mark.index, end.index, mark.column)
    if isinstance(event, yaml.ScalarEvent):
        node.text = event.value
        bare = event.anchor is None and event.tag is None and event.style not in ("|", ">")
        node.plain = bare and end.line == mark.line
    elif isinstance(event, yaml.MappingStartEvent):
        node.block = not event.flow_style
        # An anchor stands before what it names.
        node.mapping = event.anchor is None and event.tag is None
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = _read_node(event, events)
            node.entries.append((key, _read_node(next(events), events)))
        node.end = max((value.end for _, value in node.entries), default=node.end)
        node.end = node.end if node.block else _index(event.end_mark)
    elif isinstance(event, yaml.SequenceStartEvent):
        block = not event.flow_style
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            node.end = max(node.end, _read_node(event, events).end)
        node.end = node.end if block else _index(event.end_mark)
    return node
