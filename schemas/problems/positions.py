"""Where a value stands: the place of a path (keys, indexes), worked out only for what is wrong."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml._yaml import CParser

from schemas.problems.issues import Loc
from schemas.problems.problem import SourceLocation

_LEAF: dict[Any, Any] = {}
"""What is below each scalar; most values are scalars."""
LONGEST_PATH = 160
"""Characters of a path in a message; longer ones are cut in the middle."""


@dataclass(slots=True)
class ValueSpan:
    """A value's place in the text: line and column from 1, the text of a scalar, and what is below."""

    line: int
    column: int
    text: str | None = None
    below: dict[str | int, ValueSpan] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    pending: str | None = None
    is_list: bool = False


class Positions:
    """The places of one file that could be read at least up to the document that is asked for."""

    def __init__(self, file: str, data: bytes, documents: float = math.inf) -> None:
        """`documents`: how many of the file may be asked for."""
        self.file = file
        self._most = documents
        self._documents: list[ValueSpan] = []
        self._anchors: dict[str, ValueSpan] = {}
        with contextlib.suppress(yaml.YAMLError, UnicodeDecodeError):  # nothing after a mistake is asked for
            self._walk(CParser(data.decode("utf-8-sig")))

    def find(self, document: int, loc: Loc, *, key: bool = False) -> SourceLocation:
        """The place of a value, of its key when `key`; of the nearest value above when it is not there."""
        spot, place = self._descend(document, loc)
        if key and loc and len(loc) == place[2]:
            return SourceLocation(self.file, *place[:2])
        return SourceLocation(self.file, spot.line, spot.column)

    def text(self, document: int, loc: Loc) -> str | None:
        """The scalar as it is written, without quotes; None when it is not a scalar or not there."""
        spot, place = self._descend(document, loc)
        return spot.text if place[2] == len(loc) else None

    def _descend(self, document: int, loc: Loc) -> tuple[ValueSpan, tuple[int, int, int]]:
        """The deepest value on the way, and the place of its key with how many steps were found."""
        if document >= len(self._documents):
            return ValueSpan(1, 1), (1, 1, 0)
        spot = self._documents[document]
        place = (spot.line, spot.column, 0)
        for depth, step in enumerate(loc, 1):
            found = spot.below.get(step)
            if found is None:
                break
            at = (
                spot.keys.get(step, (found.line, found.column))
                if isinstance(step, str)
                else (found.line, found.column)
            )
            spot, place = found, (*at, depth)
        return spot, place

    def _walk(self, parser: CParser) -> None:
        stack: list[ValueSpan] = []
        while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                if len(self._documents) >= self._most:
                    return
                self._anchors.clear()
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                spot = self._spot(event, None)
                spot.is_list = isinstance(event, yaml.SequenceStartEvent)
                self._put(stack, spot, event)
                stack.append(spot)
            elif isinstance(event, yaml.ScalarEvent):
                self._put(stack, self._spot(event, event.value), event)
            elif isinstance(event, yaml.AliasEvent):
                target = self._anchors.get(event.anchor or "", ValueSpan(1, 1))
                self._put(stack, self._spot(event, target.text, target), event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                stack.pop()

    def _spot(self, event: Any, text: str | None, target: ValueSpan | None = None) -> ValueSpan:
        mark = event.start_mark
        spot = ValueSpan(mark.line + 1, mark.column + 1, text, *(() if text is None else (_LEAF, _LEAF)))
        if target is not None:
            spot.below, spot.keys = target.below, target.keys
        elif event.anchor is not None:
            self._anchors[event.anchor] = spot
        return spot

    def _put(self, stack: list[ValueSpan], spot: ValueSpan, event: Any) -> None:
        if not stack:
            self._documents.append(spot)
            return
        parent = stack[-1]
        if parent.is_list:
            parent.below[len(parent.below)] = spot
        elif parent.pending is None:
            parent.pending = spot.text if spot.text is not None else ""
            parent.keys.setdefault(parent.pending, (spot.line, spot.column))
        else:
            parent.below.setdefault(parent.pending, spot)
            parent.pending = None


def path_text(loc: Loc) -> str:
    """A path as people read it: `spec.mounts[0].path`, `spec.resources["cuda.device"]`."""
    parts: list[str] = []
    for step in loc:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif step.replace("-", "").replace("_", "").isalnum():
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f'["{step}"]')
    text = "".join(parts)
    return text if len(text) <= LONGEST_PATH else f"{text[: LONGEST_PATH // 2]}…{text[-20:]}"
