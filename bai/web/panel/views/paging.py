"""Which part of a long list a page has, and what links to others keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bai.queries.resources import answer_part
from bai.render.printout import Printout, Table
from bai.web.panel.blocks import redacted

if TYPE_CHECKING:
    from bai.queries.models import GetQuery
    from bai.web.pass_view import PassView

PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class Paging:
    """Page `number` of `count`, both from 1, of a list of so many things; `per_page` on each."""

    number: int
    count: int
    total: int
    per_page: int = PER_PAGE

    @classmethod
    def of(cls, total: int, asked: int, per_page: int | None = None) -> Paging:
        """The page that is asked for; the nearest where there is none such. `per_page`: `PER_PAGE` unless it
        is given."""
        per_page = per_page or PER_PAGE
        count = max(1, -(-total // per_page))
        return cls(min(max(1, asked), count), count, total, per_page)

    @property
    def first(self) -> int:
        """Of the things that are on it, from 0."""
        return (self.number - 1) * self.per_page

    @property
    def last(self) -> int:
        """One beyond the last of them."""
        return min(self.total, self.first + self.per_page)


@dataclass(frozen=True, slots=True)
class PagedReport:
    """What a command prints, of its long table one page. `asked`: what its address says."""

    found: Printout
    paging: Paging
    asked: Mapping[str, object]

    @classmethod
    def of(
        cls, found: Printout, number: int, asked: Mapping[str, object], *, ends_with_sum: bool = False
    ) -> PagedReport:
        """`ends_with_sum`: each page has the last row, where there is more than one."""
        if len(found.blocks) != 1 or not isinstance(table := found.blocks[0], Table):
            return cls(found, Paging.of(0, 1), asked)
        rows, end = table.rows, table.rows[:0]
        if ends_with_sum and len(rows) > 1:
            rows, end = rows[:-1], rows[-1:]
        paging = Paging.of(len(rows), number)
        part = replace(table, rows=(*rows[paging.first : paging.last], *end))
        return cls(replace(found, blocks=(part,)), paging, asked)

    @classmethod
    def of_part(
        cls, view: PassView, query: GetQuery, number: int, asked: Mapping[str, object]
    ) -> PagedReport:
        """What `bai get` prints of sessions or nodes, of which only the page is put into words. Raises as it
        does."""
        paging = Paging.of(0, 1)

        def part(count: int) -> slice:
            nonlocal paging
            paging = Paging.of(count, number)
            return slice(paging.first, paging.last)

        found = redacted(view, answer_part(view, query, part))
        return cls(found, paging, asked)

    def query(self, **changes: object) -> dict[str, object]:
        """Of the address of a page like it."""
        return kept({**self.asked, **changes})


def kept(asked: Mapping[str, object]) -> dict[str, object]:
    """What of a question stands in its address."""
    return {name: value for name, value in asked.items() if value}
