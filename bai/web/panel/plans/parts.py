"""A long list of a page, cut: each list of a page is cut for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bai.web.panel.views.paging import Paging

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """Page `number` of `count`, both from 1, of `total` things."""

    items: tuple[T, ...]
    number: int
    count: int
    total: int


def cut(things: Sequence[T], number: int, most: int) -> Part[T]:
    """The page that is asked for; the nearest where there is none such."""
    paging = Paging.of(len(things), number, most)
    return Part(tuple(things[paging.first : paging.last]), paging.number, paging.count, paging.total)
