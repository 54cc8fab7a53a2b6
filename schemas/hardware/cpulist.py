"""The kernel's notations for sets of CPUs: lists (`0-3,8`) and masks (`00000001,0000000f`). Standard library
only.
"""

from __future__ import annotations

import re
from typing import Iterable

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?\Z")
_WORD = re.compile(r"(?:0[xX])?([0-9a-fA-F]{0,8})\Z")
MAX_CPU = 65_535


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of a list string, ascending and unique.

    Raises ValueError for anything that is not a list of numbers and ranges up to 65535.
    """
    ranges: list[tuple[int, int]] = []
    for part in text.strip().split(","):
        if not part.strip():
            continue
        found = _RANGE.match(part.strip())
        if not found:
            raise ValueError(f"{part.strip()!r} is not a CPU number or range such as 0-3")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last > MAX_CPU:
            raise ValueError(f"{part.strip()!r} is not an ascending range of CPU numbers up to {MAX_CPU}")
        ranges.append((first, last))
    cpus: list[int] = []
    for first, last in sorted(ranges):
        cpus.extend(range(max(first, cpus[-1] + 1) if cpus else first, last + 1))
    return tuple(cpus)


def parse_mask(text: str) -> tuple[int, ...]:
    """CPU numbers of a mask of 32-bit words, highest first (`ffff` or `0x0000000f,...,0xffffffff`).

    Raises ValueError for anything else. An empty word stands for zero, as hwloc writes it.
    """
    words: list[str] = []
    for word in text.strip().split(","):
        found = _WORD.match(word.strip())
        if not found:
            raise ValueError(f"{word.strip()!r} is not a word of a CPU mask")
        words.append(found[1].rjust(8, "0"))
    bits = int("".join(words), 16)
    if bits.bit_length() > MAX_CPU + 1:
        raise ValueError(f"a CPU mask has at most {MAX_CPU + 1} bits")
    return tuple(at for at in range(bits.bit_length()) if bits >> at & 1)


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
