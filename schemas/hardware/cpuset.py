"""Lists of logical CPUs in the kernel's notation: `0-3,8` ⇄ (0, 1, 2, 3, 8)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?\Z")
MAX_CPU = 65_535


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of a list string, ascending and unique.

    Raises ValueError for anything that is not a list of numbers and ranges up to 65535.
    """
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part.strip():
            continue
        found = _RANGE.match(part.strip())
        if not found:
            raise ValueError(f"{part.strip()!r} is not a CPU number or range such as 0-3")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last > MAX_CPU:
            raise ValueError(f"{part.strip()!r} is not an ascending range of CPU numbers up to {MAX_CPU}")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list string for these CPU numbers."""
    ordered = sorted(set(cpus))
    parts: list[str] = []
    start = 0
    for at in range(1, len(ordered) + 1):
        if at < len(ordered) and ordered[at] == ordered[at - 1] + 1:
            continue
        first, last = ordered[start], ordered[at - 1]
        parts.append(str(first) if first == last else f"{first}-{last}")
        start = at
    return ",".join(parts)


def _read(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a CPU list is a string such as 0-3,8")
    if isinstance(value, int):
        return (value,)
    if isinstance(value, str):
        return parse_cpus(value)
    return value


_PATTERN = r"^\s*(\d{1,6}(-\d{1,6})?(\s*,\s*\d{1,6}(-\d{1,6})?)*)?\s*$"

CpuList = Annotated[
    tuple[int, ...],
    BeforeValidator(_read),
    PlainSerializer(format_cpus, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": _PATTERN}, {"type": "integer", "minimum": 0}]}),
]
