"""How parts of devices share one device: the maximal combinations of part sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

DEVICE = 1000
MOST = 4096


@lru_cache(maxsize=256)
def patterns(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All maximal multisets of `sizes` (milli, descending) that fit one device, as counts per size.

    At most `MOST` are given, those of large parts first: beyond that the tail is of crumbs, which patterns of
    a single size still cover.
    """
    found = list(_limited(_maximal(sizes, 0, DEVICE)))
    singles = [
        tuple(DEVICE // size if at == index else 0 for at in range(len(sizes)))
        for index, size in enumerate(sizes)
    ]
    return tuple(dict.fromkeys([*found, *singles]))


def _maximal(sizes: tuple[int, ...], at: int, left: int) -> Iterator[tuple[int, ...]]:
    if at == len(sizes) - 1:
        yield (left // sizes[at],)
        return
    for count in range(left // sizes[at], -1, -1):
        for rest in _maximal(sizes, at + 1, left - count * sizes[at]):
            used = sum(number * size for number, size in zip(rest, sizes[at + 1 :], strict=True))
            if count == left // sizes[at] or left - count * sizes[at] - used < sizes[at]:
                yield (count, *rest)


def _single(sizes: tuple[int, ...], index: int) -> tuple[int, ...]:
    return tuple(DEVICE // size if at == index else 0 for at, size in enumerate(sizes))


def _limited(every: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for _, one in zip(range(MOST), every, strict=False):
        yield one
