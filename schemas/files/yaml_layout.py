"""The shape of a YAML text: every collection and scalar with the lines it stands on; `fmt` moves these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml._yaml import CParser


@dataclass(slots=True)
class LayoutNode:
    """A value in the text. Lines and columns count from 0; `last` is the last line with something of it."""

    line: int
    column: int
    last: int
    text: str | None = None
    entries: list[tuple[LayoutNode, LayoutNode]] = field(default_factory=list)
    """Keys and values of a block mapping."""
    items: list[LayoutNode] = field(default_factory=list)
    """Values of a block sequence."""
    block: bool = False
    """A collection in block style; anything else is moved as it stands."""
    mapping: bool = False
    literal: bool = False
    """A block scalar: its lines are content, blank ones too."""
    empty: bool = False
    """Nothing is written."""


@dataclass(slots=True)
class LayoutDocument:
    """One document: its root (None when empty) and the line of its `---` (None without)."""

    root: LayoutNode | None
    marker: int | None


class UnsupportedLayout(Exception):
    """A construct that is left as it is written."""


def parse_layout(text: str) -> list[LayoutDocument]:
    """The documents of a text that is known to be readable. Raises Unusual for directives and `...`."""
    found: list[LayoutDocument] = []
    events = _events(text)
    event: Any
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            if event.version or event.tags:
                raise UnsupportedLayout
            found.append(LayoutDocument(None, _line_number(event.start_mark) if event.explicit else None))
        elif isinstance(event, yaml.DocumentEndEvent):
            if event.explicit:
                raise UnsupportedLayout
        elif not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent):
            found[-1].root = _read_node(event, events)
    return found


def _events(text: str) -> Iterator[Any]:
    parser = CParser(text)
    while True:
        event = parser.get_event()
        yield event
        if isinstance(event, yaml.StreamEndEvent):
            return


def _line_number(mark: Any) -> int:
    return int(mark.line)


def _read_node(event: Any, events: Iterator[Any]) -> LayoutNode:
    mark, end = event.start_mark, event.end_mark
    shape = LayoutNode(mark.line, mark.column, end.line)
    if isinstance(event, yaml.ScalarEvent):
        _read_scalar(shape, event)
    elif isinstance(event, yaml.MappingStartEvent):
        shape.mapping, shape.block = True, not event.flow_style
        _read_mapping(shape, events)
    elif isinstance(event, yaml.SequenceStartEvent):
        shape.block = not event.flow_style
        _read_sequence(shape, events)
    return shape


def _read_scalar(shape: LayoutNode, event: Any) -> None:
    shape.text = event.value
    shape.literal = event.style in ("|", ">")
    shape.empty = not event.value and event.implicit[0] and event.start_mark.index == event.end_mark.index
    if shape.literal and event.end_mark.column == 0:
        shape.last = max(shape.line, event.end_mark.line - 1)


def _read_mapping(shape: LayoutNode, events: Iterator[Any]) -> None:
    last = shape.line
    event: Any
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _read_node(event, events)
        value = _read_node(next(events), events)
        if value.empty:
            value.line = value.last = key.last
        shape.entries.append((key, value))
        last = value.last
    shape.last = last if shape.block else _line_number(event.end_mark)


def _read_sequence(shape: LayoutNode, events: Iterator[Any]) -> None:
    event: Any
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        shape.items.append(_read_node(event, events))
    if not shape.block:
        shape.last = _line_number(event.end_mark)
    elif shape.items:
        shape.last = shape.items[-1].last
