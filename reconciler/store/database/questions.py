"""Questions in SQL that both engines understand, and what stands in their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from reconciler.values.times import clamped

BUSY_MS = 30_000
"""Milliseconds to wait for others who write to the same file."""
Row = Mapping[Any, Any]
"""Column → value."""
_TIMES = {"at", "enqueued_at", "started_at", "finished_at", "reached", "lost", "seen"}
"""Columns in seconds since the epoch: what a wrong clock has written harms nobody later."""


class Ask(Protocol):
    """One statement with `:name` for each parameter → its rows by the names of their columns."""

    def __call__(self, sql: str, **parameters: object) -> Sequence[Row]: ...


def escaped_text(value: str) -> str:
    """What one of the engines cannot hold (NUL, halves of surrogate pairs) is kept as its escape, which means
    the same inside of JSON."""
    if value.isascii() and "\0" not in value:
        return value
    return value.replace("\0", "\\u0000").encode(errors="backslashreplace").decode()


def plain_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """As tables hold them."""
    return {
        name: escaped_text(value) if isinstance(value, str) else value for name, value in parameters.items()
    }


def plain_rows(columns: Sequence[str], found: Iterable[Iterable[Any]]) -> Sequence[Row]:
    """Rows by the names of their columns, with their times as a calendar has them."""
    made = [dict(zip(columns, row, strict=True)) for row in found]
    times = [name for name in columns if name in _TIMES]
    for row in made if times else ():
        for name in times:
            if (at := row[name]) is not None:
                row[name] = clamped(at)
    return made
