"""The page of sessions: which, in which order, and how many of each phase."""

from __future__ import annotations

from typing import Any

import pytest

from bai.render.resources.status import SessionFacts, SessionRow, session_row
from bai.web.panel.views import session_list as module
from bai.web.panel.views.paging import PER_PAGE
from bai.web.panel.views.session_list import SessionList, SessionListQuery, session_list
from schemas.problems.errors.command import CommandError
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, assert_harmless, bench_view, hostile, render, view_of
from tests.harness.work import instructions, instructions_per_pair


def listed(world: Lab, who: str = "viewer", **asked: Any) -> SessionList:
    return session_list(view_of(world, who), SessionListQuery(**asked))


def names(found: SessionList) -> list[str]:
    return [row.name for row in found.rows]


def test_rows_tell_what_sessions_have(world: Lab) -> None:
    found = listed(world)
    assert names(found) == ["own", "waiting", f"{SECRET}-run", f"{SECRET}-too", f"{SECRET}-waits"]
    own, waiting = found.rows[:2]
    assert (own.phase, own.nodes, own.cores, own.memory, own.gpus) == ("RUNNING", "n1", "2", "1GiB", "1")
    assert (own.ready, own.since, own.group) == ("1/1", "2027-01-15T08:00:30Z", "default")
    assert waiting.phase == "PENDING" and waiting.about.startswith("2 in queue; no-capacity: needs 2 GPUs")
    assert waiting.group == "default"
    assert [(each.phase, each.word, each.count) for each in found.phases] == [
        ("PENDING", "pending", 2),
        ("RUNNING", "running", 3),
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"phase": "running", "project": "p"}, ["own"]),
        ({"phase": "PENDING,running", "project": "p"}, ["own", "waiting"]),
        ({"q": "P/WAIT"}, ["waiting"]),
        ({"selector": f"team={SECRET}-team", "phase": "pending"}, [f"{SECRET}-waits"]),
        ({"selector": "!team", "sort": "phase"}, ["waiting", "own"]),
        ({"project": "p", "sort": "gpus"}, ["own", "waiting"]),
        ({"project": "p", "sort": "age"}, ["waiting", "own"]),
        ({"q": "nobody"}, []),
    ],
)
def test_they_are_chosen_and_sorted(world: Lab, asked: dict[str, Any], found: list[str]) -> None:
    assert names(listed(world, **asked)) == found


@pytest.mark.parametrize("asked", [{"phase": "sleeping"}, {"selector": "=a"}])
def test_what_means_nothing_is_refused(world: Lab, asked: dict[str, Any]) -> None:
    with pytest.raises(CommandError):
        listed(world, **asked)


def test_of_another_project_there_is_nothing(world: Lab) -> None:
    found = listed(world, "ours")
    assert names(found) == ["own", "waiting"] and found.total == 2 and found.projects == ("p",)
    assert SECRET not in render("sessions.html", list=found)
    for asked in ({"project": SECRET}, {"q": SECRET}, {"selector": f"team={SECRET}-team"}):
        assert names(listed(world, "ours", **asked)) == []


def test_links_keep_what_is_asked_for(world: Lab) -> None:
    found = listed(world, project="p", phase="pending", sort="name")
    assert found.query(sort="age") == {"project": "p", "phase": "pending", "sort": "age"}
    assert found.query(page=2)["page"] == 2 and "page" not in found.query()
    page = render("sessions.html", list=found)
    assert "?phase=running&amp;project=p&amp;sort=name" in page
    assert 'name="phase" value="pending"' in page and 'aria-sort="ascending"' in page


def test_a_search_comes_back_as_text(world: Lab) -> None:
    attack = '"><script>alert(1)</script>'
    page = render("sessions.html", list=listed(world, q=attack, selector="a=<b>"))
    assert "<script" not in page and "&lt;script&gt;" in page and "There is no such session." in page


def test_what_is_hostile_stays_text(world: Lab) -> None:
    found = listed(world)
    assert_harmless(render("sessions.html", list=hostile(found)))


def test_only_what_is_shown_is_put_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def put(facts: SessionFacts) -> SessionRow:
        made.append(facts.id)
        return session_row(facts)

    monkeypatch.setattr(module, "session_row", put)
    with bench_view(2, PER_PAGE + 20) as view:
        first = session_list(view, SessionListQuery(sort="gpus"))
        assert len(first.rows) == len(made) == PER_PAGE and first.paging.count == 2
        second = session_list(view, SessionListQuery(sort="gpus", page=2))
        assert len(second.rows) == 20 and len(made) == PER_PAGE + 20
        assert not {row.name for row in first.rows} & {row.name for row in second.rows}
        page = render("sessions.html", list=second)
        assert "101 to 120 of 120" in page and '?sort=gpus&amp;page=1"' in page


def test_it_is_no_work_for_each_pair_of_sessions() -> None:
    def work(size: int) -> int:
        with bench_view(2, size) as view:
            asked = SessionListQuery(q="s", sort="gpus", phase="pending,running", selector="!none")
            return instructions(lambda: session_list(view, asked))

    assert instructions_per_pair(work, 16) <= 0.2
