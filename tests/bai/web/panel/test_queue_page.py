"""The page of who waits."""

from __future__ import annotations

from pathlib import Path

from bai.web.panel.views.paging import PER_PAGE, Paging
from bai.web.panel.views.queue_page import QueuePage, WaitRow, queue_page
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, view_of
from tests.reconciler.lab import BASE, session


def rows(found: QueuePage) -> list[WaitRow]:
    return [row for group in found.groups for row in group.rows]


def test_it_tells_place_reasons_and_what_would_free(world: Lab) -> None:
    found = queue_page(view_of(world))
    (group,) = found.groups
    assert (group.name, group.waiting) == ("default", 2)
    theirs, own = group.rows
    assert (theirs.position, theirs.project, own.position, own.name) == (1, SECRET, 2, "waiting")
    assert own.since == "2027-01-15T08:01:00Z" and own.asks == "cuda.device 2"
    assert [code for code, _ in own.reasons] == ["no-capacity", "preemption"]
    assert "needs 2 GPUs on one node; the largest free block is 1 GPU" in own.reasons[0][1]
    assert theirs.freed_by.startswith("Session/")
    page = render("queue.html", queue=found)
    assert 'href="/clusters/here/sessions/p/waiting"' in page and "first freed by" in page


def test_of_another_project_nothing_is_told(world: Lab) -> None:
    found = queue_page(view_of(world, "ours"))
    (own,) = rows(found)
    assert (own.name, own.position, own.freed_by) == ("waiting", 2, "another project's Session")
    assert found.projects_known == ("p",)
    assert SECRET not in render("queue.html", queue=found)
    assert rows(queue_page(view_of(world, "ours"), project=SECRET)) == []


def test_it_is_chosen_by_group_and_project(world: Lab) -> None:
    view = view_of(world)
    assert [row.name for row in rows(queue_page(view, project="p"))] == ["waiting"]
    assert len(rows(queue_page(view, group="default"))) == 2
    none = queue_page(view, group="none")
    assert rows(none) == [] and "Nobody waits." in render("queue.html", queue=none)
    assert queue_page(view, group="default", project="p").query(project="") == {"group": "default"}


def test_what_is_hostile_stays_text(world: Lab) -> None:
    assert_harmless(render("queue.html", queue=hostile(queue_page(view_of(world)))))


def test_groups_stand_one_after_the_other_and_forecasts_are_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write("base", BASE + "---\napiVersion: bai/v1\nkind: ResourceGroup\nmetadata: {name: a}\nspec: {}\n")
    for name in ("r1", "r2"):
        lab.write(name, session(name, "resources: {cuda.device: 2}, resourceGroup: default, timeout: 1h"))
    assert lab.once(), lab.lines
    lab.write("w1", session("w1", "resources: {cuda.device: 2}, resourceGroup: default"))
    lab.write("w2", session("w2", "resources: {cuda.device: 1}, resourceGroup: a"))
    lab.once()
    found = queue_page(view_of(lab))
    assert [group.name for group in found.groups] == ["a", "default"]
    first = rows(found)[1]
    assert first.name == "w1" and first.latest == "2027-01-15T09:00:30Z"
    assert first.latest in render("queue.html", queue=found)
    lab.close()


def test_a_page_that_there_is_not_is_the_nearest() -> None:
    assert Paging.of(0, 5) == Paging(1, 1, 0)
    assert Paging.of(PER_PAGE + 1, 9) == Paging(2, 2, PER_PAGE + 1)
    last = Paging.of(PER_PAGE + 1, 2)
    assert (last.first, last.last) == (PER_PAGE, PER_PAGE + 1)
    assert Paging.of(5, -1).number == 1
