"""Users: those with documents, and whoever owns sessions."""

from __future__ import annotations

import pytest

from bai.queries import usage
from bai.queries.models import UsageQuery
from bai.web.panel.administration.tally import USAGE_DAYS
from bai.web.panel.administration.users import user_list, user_page
from bai.web.panel.views.session_list import SessionListQuery, session_list
from schemas.problems.errors.command import NoSuchResource
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, texts_of, view_of

EVE = f"{SECRET}-eve"


def test_rows_tell_who_is_there_and_what_they_hold(world: Lab) -> None:
    found = {row.name: row for row in user_list(view_of(world)).rows}
    assert list(found) == ["ada", "bob", EVE]
    ada, bob = found["ada"], found["bob"]
    assert (ada.full_name, ada.email, ada.projects, ada.is_active) == (
        "Ada", "ada@here.example", ("p",), True,
    )  # fmt: skip
    assert ada.now.phases == (("RUNNING", 1),) and (ada.now.gpus, ada.now.cores) == ("", "1")
    assert (bob.projects, bob.is_active, bob.now.phases) == (("p", SECRET), False, ())


def test_hours_are_those_of_the_report(world: Lab) -> None:
    view = view_of(world)
    query = UsageQuery(form="json", by="user", since=view.now - USAGE_DAYS * 86_400)
    report = usage.answer(view, query).document
    assert report is not None
    told = {item["user"]: item["cpuHours"] for item in report["items"] if item["user"]}
    assert told["ada"] > 0
    shown = {row.name: row.hours.cpu for row in user_list(view).rows}
    assert {name: float(shown[name] or 0) for name in told} == {
        name: round(hours, 1) for name, hours in told.items()
    }


def test_a_page_leads_to_the_sessions_that_it_counts(world: Lab) -> None:
    view = view_of(world)
    page = user_page(view, "ada")
    assert [(name, now.phases) for name, now in page.by_project] == [("p", (("RUNNING", 1),))]
    listed = session_list(view, SessionListQuery(owner="ada"))
    assert [row.name for row in listed.rows] == ["adas"]
    assert session_list(view, SessionListQuery(owner="ada@HERE.example")).rows == listed.rows
    text = render("administration/user.html", page=page, days=1)
    assert 'href="/clusters/here/sessions?owner=ada"' in text
    assert [each.name for each in user_page(view, EVE).quotas] == [f"{SECRET}-user"]


def test_they_are_chosen_by_name_and_project(world: Lab) -> None:
    view = view_of(world)
    assert [row.name for row in user_list(view, "HERE.EX").rows] == ["ada"]
    assert [row.name for row in user_list(view, project=SECRET).rows] == ["bob", EVE]
    assert user_list(view).projects_known == ("p", SECRET)


def test_a_viewer_of_one_project_sees_its_people_and_no_documents(world: Lab) -> None:
    view = view_of(world, "ours")
    found = user_list(view)
    assert [(row.name, row.projects, row.is_active) for row in found.rows] == [
        ("ada", ("p",), True),
        ("bob", ("p",), True),
    ]
    pages = [user_page(view, row.name) for row in found.rows]
    assert SECRET not in "".join((*texts_of(found), *(text for page in pages for text in texts_of(page))))
    assert "here.example" not in "".join(texts_of(found))
    for name in (EVE, "nobody", ""):
        with pytest.raises(NoSuchResource):
            user_page(view, name)


def test_what_is_hostile_stays_text(world: Lab) -> None:
    view = view_of(world)
    assert_harmless(render("administration/users.html", list=hostile(user_list(view)), days=1))
    assert_harmless(render("administration/user.html", page=hostile(user_page(view, "ada")), days=1))
