"""The list of the resources of a kind: a hundred at a time."""

from __future__ import annotations

import pytest

from bai.queries import models, nodes, resources
from bai.render.printout import Printout, Table, plain_lines
from bai.web.panel.routes.page_route import asked
from bai.web.panel.views import paging
from bai.web.panel.views.paging import PagedReport
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import HOSTILE, SECRET, assert_harmless, render, view_of

ROWS = tuple((f"Session/p/s{number}", "RUNNING") for number in range(250))


def page_of(number: int, kind: str = "Session") -> str:
    found = Printout(blocks=(Table(("name", "phase"), ROWS),), notes=(HOSTILE,))
    asked = {"kind": kind}
    return render("resources.html", report=PagedReport.of(found, number, asked), asked=asked)


def test_a_long_list_is_cut_into_pages() -> None:
    first, last = page_of(1), page_of(9)
    assert ">p/s0<" in first.replace("Session/", "") and "s100" not in first
    assert "1 to 100 of 250" in first and "?kind=Session&amp;page=2" in first
    assert "s249" in last and "s199" not in last and "201 to 250 of 250" in last


def test_what_is_asked_for_stays_text() -> None:
    assert_harmless(page_of(1, HOSTILE))


def test_what_is_no_table_is_whole() -> None:
    found = Printout(blocks=(plain_lines(str(number) for number in range(250)),))
    assert PagedReport.of(found, 2, {}).found is found


@pytest.mark.parametrize("who", ["viewer", "ours"])
def test_of_many_sessions_only_those_of_the_page_are_put_into_words(
    world: Lab, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    view, query = view_of(world, who), models.GetQuery.of(kind="Session")
    whole = asked(view, query)
    monkeypatch.setattr(paging, "PER_PAGE", 1)
    worded: list[str] = []
    row = resources.session_row
    monkeypatch.setattr(resources, "session_row", lambda each: worded.append(each.id) or row(each))
    for number in (1, 2):
        part = PagedReport.of_part(view, query, number, {})
        assert part == PagedReport.of(whole, number, {}) and part.paging.total > 1
        assert who == "viewer" or SECRET not in str(part)
    assert len(worded) == 2


def test_of_many_nodes_only_those_of_the_page_are_put_into_words(
    world: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, query = view_of(world), models.GetQuery.of(kind="Node")
    whole = asked(view, query)
    monkeypatch.setattr(paging, "PER_PAGE", 1)
    worded: list[object] = []
    row = nodes.node_row
    monkeypatch.setattr(nodes, "node_row", lambda *given: worded.append(given[0]) or row(*given))
    for number in (1, 2, 3):
        part = PagedReport.of_part(view, query, number, {})
        assert part == PagedReport.of(whole, number, {}) and part.paging.total == 2
    assert len(worded) == 3


def test_each_page_of_hours_has_their_sum() -> None:
    found = Printout(blocks=(Table(("session", "hours"), (*ROWS, ("total", "250"))),))
    first, last = (PagedReport.of(found, number, {}, ends_with_sum=True) for number in (1, 3))
    for part, rows in ((first, ROWS[:100]), (last, ROWS[200:])):
        (table,) = part.found.blocks
        assert isinstance(table, Table) and table.rows == (*rows, ("total", "250"))
    assert "1 to 100 of 250" in render("usage.html", report=first, asked={"by": "session"})
    one = Printout(blocks=(Table(("session", "hours"), ROWS[:1]),))
    assert PagedReport.of(one, 1, {}, ends_with_sum=True).found == one
