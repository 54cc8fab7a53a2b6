"""The list of the resources of a kind: a hundred at a time."""

from __future__ import annotations

from bai.render.printout import Printout, Table, plain_lines
from bai.web.panel.views.paging import PagedReport
from tests.bai.web.panel.rendering import HOSTILE, assert_harmless, render

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
