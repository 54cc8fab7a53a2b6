"""Which part of a long list a page has, and what links to others keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bai.render.printout import Printout, Table

PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class Paging:
    """Page `number` of `count`, both from 1, of a list of so many things."""

    number: int
    count: int
    total: int

    @classmethod
    def of(cls, total: int, asked: int) -> Paging:
        """The page that is asked for; the nearest where there is none such."""
        count = max(1, -(-total // PER_PAGE))
        return cls(min(max(1, asked), count), count, total)

    @property
    def first(self) -> int:
        """Of the things that are on it, from 0."""
        return (self.number - 1) * PER_PAGE

    @property
    def last(self) -> int:
        """One beyond the last of them."""
        return min(self.total, self.first + PER_PAGE)


@dataclass(frozen=True, slots=True)
class PagedReport:
    """What a command prints, of its long table one page. `asked`: what its address says."""

    found: Printout
    paging: Paging
    asked: Mapping[str, object]

    @classmethod
    def of(cls, found: Printout, number: int, asked: Mapping[str, object]) -> PagedReport:
        if len(found.blocks) != 1 or not isinstance(table := found.blocks[0], Table):
            return cls(found, Paging.of(0, 1), asked)
        paging = Paging.of(len(table.rows), number)
        part = replace(table, rows=table.rows[paging.first : paging.last])
        return cls(replace(found, blocks=(part,)), paging, asked)

    def query(self, **changes: object) -> dict[str, object]:
        """Of the address of a page like it."""
        return kept({**self.asked, **changes})


def kept(asked: Mapping[str, object]) -> dict[str, object]:
    """What of a question stands in its address."""
    return {name: value for name, value in asked.items() if value}
