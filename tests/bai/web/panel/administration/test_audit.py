"""The audit, chosen by who, what and when, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from markupsafe import escape

from bai.web.panel.administration.audit import AuditPageQuery, audit_page
from bai.web.panel.views.paging import PER_PAGE
from reconciler.gitops.directives import Directive, issue_directive
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, texts_of, view_of
from tests.reconciler.lab import session


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """More entries than a page has."""
    made = Lab(tmp_path_factory.mktemp("long"))
    made.write("s", "---".join(session(f"s{n:03}", "resources: {cpu: 1000}") for n in range(PER_PAGE + 20)))
    made.once()
    made.write("s", session("s000", "resources: {cpu: 999}"))
    made.once()
    issue_directive(made.workspace.store, "here", "suspend", Directive("grace", 1.0, "a pause"))
    yield made
    made.close()


def test_the_newest_stand_first_and_pages_lead_back_to_the_first(long: Lab) -> None:
    view, before, seen = view_of(long), 0, list[int]()
    while True:
        page = audit_page(view, AuditPageQuery(before=before))
        seen += [row.seq for row in page.rows]
        if not page.older:
            break
        assert len(page.rows) == PER_PAGE
        before = page.older
    assert view.store is not None
    assert seen == [entry.seq for entry in reversed(view.store.audit("here"))]
    assert len(seen) > 2 * PER_PAGE
    text = render("administration/audit.html", page=audit_page(view, AuditPageQuery(actor="loop")))
    assert 'rel="next" href="/clusters/here/audit?actor=loop&amp;before=' in text


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"actor": "gra"}, 1),
        ({"verb": "suspend"}, 1),
        ({"verb": "update", "resource": "s000"}, 1),
        ({"resource": "Session/p/s001"}, 2),
        ({"resource": "s001", "verb": "delete"}, 1),
        ({"until": "2001-01-01"}, 1),
        ({"since": "2100-01-01"}, 0),
        ({"commit": "none"}, 0),
        ({"plan": "none"}, 0),
    ],
)
def test_entries_are_chosen(long: Lab, asked: dict[str, str], count: int) -> None:
    page = audit_page(view_of(long), AuditPageQuery(**asked))  # type: ignore[arg-type]
    assert len(page.rows) == count and page.problem == ""
    assert page.query() == asked


def test_fields_that_changed_are_told(long: Lab) -> None:
    (row,) = audit_page(view_of(long), AuditPageQuery(verb="update", resource="s000")).rows
    assert any("999" in after for _, _, after in row.changes) and row.change_count == len(row.changes)


@pytest.mark.parametrize("asked", [{"resource": "nobody"}, {"since": "some day"}, {"until": "x"}])
def test_what_means_nothing_is_said(long: Lab, asked: dict[str, str]) -> None:
    page = audit_page(view_of(long), AuditPageQuery(**asked))  # type: ignore[arg-type]
    assert page.problem and page.rows == ()
    assert str(escape(page.problem)) in render("administration/audit.html", page=page)


def test_a_viewer_of_one_project_gets_whole_pages_of_its_own(world: Lab) -> None:
    view = view_of(world, "ours")
    page = audit_page(view, AuditPageQuery())
    assert {row.resource for row in page.rows} >= {"Session/p/own", "Volume/p/data", "Project/p"}
    assert all(view.sees(row.resource) for row in page.rows)
    assert SECRET not in "".join(texts_of(page))
    assert view.store is not None
    last = view.store.audit("here", projects={"p"}, limit=1)
    assert last[0].seq == page.rows[0].seq
    assert view.store.audit("here", projects=set()) == ()


def test_what_is_hostile_stays_text(world: Lab) -> None:
    assert_harmless(
        render("administration/audit.html", page=hostile(audit_page(view_of(world), AuditPageQuery())))
    )


def test_an_empty_cluster_has_none(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.once()
    page = audit_page(view_of(lab, "ours"), AuditPageQuery(actor="nobody"))
    assert "There is no such entry." in render("administration/audit.html", page=page)
    lab.close()
