"""A long list of a page, cut: each list of a page is cut for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """Page `number` of `count`, both from 1, of `total` things."""

    items: tuple[T, ...]
    number: int
    count: int
    total: int


def place(total: int, number: int, most: int) -> tuple[int, int]:
    """The page that is asked for, the nearest where there is none such, and of how many; both from 1."""
    count = max(1, -(-total // most))
    return min(max(1, number), count), count


def cut(things: Sequence[T], number: int, most: int) -> Part[T]:
    """The page that is asked for."""
    at, count = place(len(things), number, most)
    return Part(tuple(things[(at - 1) * most : at * most]), at, count, len(things))
