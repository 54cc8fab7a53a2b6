"""Server-sent events, taken apart (HTML Living Standard, section 9.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 1 << 20
"""Bytes."""
MOST_LINES = 1000
"""Lines of one message's data."""


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """`kind` is the event's type; `id` is empty where it has none."""

    kind: str
    data: str
    id: str = ""


def read_messages(pieces: Iterable[bytes]) -> Iterator[StreamMessage]:
    """Messages as they become complete; comments are left out, and what is cut off in the end. Raises
    ValueError for a line or a message without an end."""
    kind, id_, data = "", "", list[str]()
    for line in _lines(pieces):
        if not line:
            if data:
                yield StreamMessage(kind or "message", "\n".join(data), id_)
            kind, id_, data = "", "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id":
            id_ = value
        elif name == "data":
            data.append(value)
            if len(data) > MOST_LINES:
                raise ValueError(f"a message of more than {MOST_LINES} lines")


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *whole, rest = rest.split(b"\n")
            yield from (line.removesuffix(b"\r").decode(errors="replace") for line in whole)
        elif len(rest) > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
