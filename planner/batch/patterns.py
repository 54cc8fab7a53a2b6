"""How parts of devices share one device: the maximal combinations of part sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from planner.batch.values import DEVICE

MOST_PATTERNS = 4096


@lru_cache(maxsize=256)
def device_patterns(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All maximal multisets of `sizes` (milli, descending) that fit one device, as counts per size.

    At most `MOST` are given, those of large parts first: beyond that the tail is of crumbs, which patterns of
    a single size still cover.
    """
    found = list(_first_patterns(_maximal_patterns(sizes, 0, DEVICE)))
    singles = [
        tuple(DEVICE // size if at == index else 0 for at in range(len(sizes)))
        for index, size in enumerate(sizes)
    ]
    return tuple(dict.fromkeys([*found, *singles]))


def _maximal_patterns(sizes: tuple[int, ...], at: int, left: int) -> Iterator[tuple[int, ...]]:
    if at == len(sizes) - 1:
        yield (left // sizes[at],)
        return
    for count in range(left // sizes[at], -1, -1):
        for rest in _maximal_patterns(sizes, at + 1, left - count * sizes[at]):
            used = sum(number * size for number, size in zip(rest, sizes[at + 1 :], strict=True))
            if count == left // sizes[at] or left - count * sizes[at] - used < sizes[at]:
                yield (count, *rest)


def _first_patterns(every: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for _, one in zip(range(MOST_PATTERNS), every, strict=False):
        yield one
