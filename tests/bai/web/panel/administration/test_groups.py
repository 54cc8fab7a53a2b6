"""Resource groups: figures that `bai capacity` says, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from bai.web.panel.administration.groups import GroupPage, GroupRow, group_list, group_page
from schemas.problems.errors.command import NoSuchResource
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, texts_of, view_of
from tests.reconciler.lab import BASE, session

GROUP = f"""
  queue: fair-share
  queueOptions: {{maxSkips: 3, halfLife: 1d, weights: {{user/ada: 2}}}}
  preemption: {{mode: priority, minimumRunTime: 10m, grace: 1m}}
  allowedProjects: [p, {SECRET}]
  reservations:
    - {{name: {SECRET}-week, nodes: [n2], projects: [{SECRET}], startsAt: "2027-01-10T00:00:00Z",
       endsAt: "2027-01-20T00:00:00Z"}}
    - {{name: later, nodes: [n1], projects: [p], startsAt: "2028-01-10T00:00:00Z",
       endsAt: "2028-01-20T00:00:00Z"}}
"""


def rules_lab(folder: Path) -> Lab:
    lab = Lab(folder)
    lab.write("base", BASE.replace("name: default}\nspec: {}", f"name: default}}\nspec:{GROUP}"))
    lab.write("other", f"apiVersion: bai/v1\nkind: Project\nmetadata: {{name: {SECRET}}}\nspec: {{}}\n")
    lab.write("ada", "apiVersion: bai/v1\nkind: User\nmetadata: {name: ada}\nspec: {projects: [p]}\n")
    lab.write("s", session("s", "resources: {cpu: 3, memory: 1GiB, cuda.device: 1}"))
    assert lab.once(), lab.lines
    return lab


def test_room_is_that_of_capacity(world: Lab) -> None:
    view = view_of(world)
    (row,) = group_list(view)
    (told,) = view.capacities
    assert row.room == tuple((size.words, size.fits, size.one_numa) for size in told.before.sizes)
    slots = {slot.name: slot for slot in row.slots}
    assert (slots["cuda.device"].used, slots["cuda.device"].capacity) == ("3", "4")
    for name, slot in slots.items():
        assert told.before.capacity[name] > 0 and slot.fill <= 10
    assert row.room[0] == ("1 GPU", 1, 1)


def test_who_waits_is_counted_whoever_it_is(world: Lab) -> None:
    (row,) = group_list(view_of(world))
    assert (row.waiting, row.since) == (2, "2027-01-15T08:01:00Z")
    (row,) = group_list(view_of(world, "ours"))
    assert row.waiting == 2
    assert (row.queue, row.selection, row.preempts) == ("", "", False)


def test_rules_are_told_in_words(tmp_path: Path) -> None:
    lab = rules_lab(tmp_path)
    page = group_page(view_of(lab), "default")
    policy = dict(page.policy)
    assert policy["whose turn"] == (
        "fair-share, the first is passed 3 times at most, use counts half after 1d, user/ada counts 2 times"
    )
    assert policy["preemption"] == "by priority, after 10m; 1m to end"
    assert policy["only for projects"] == f"p, {SECRET}"
    assert [(each.name, each.nodes, each.holds_now) for each in page.reservations] == [
        (f"{SECRET}-week", "n2", True),
        ("later", "n1", False),
    ]
    assert page.lies[0] == "largest free block: 2 GPUs on n2"
    text = render("administration/group.html", page=page, sees_policy=True)
    assert f'href="/clusters/here/projects/{SECRET}"' in text
    assert_harmless(render("administration/group.html", page=hostile(page), sees_policy=True))
    theirs = group_page(view_of(lab, "ours"), "default")
    assert (theirs.policy, theirs.reservations, theirs.lies) == ((), (), ())
    assert SECRET not in "".join(texts_of(theirs))
    lab.close()


def test_a_group_that_there_is_not(world: Lab) -> None:
    with pytest.raises(NoSuchResource):
        group_page(view_of(world), "none")


def test_what_is_hostile_stays_text(world: Lab) -> None:
    rows: tuple[GroupRow, ...] = hostile(group_list(view_of(world)))
    assert_harmless(render("administration/groups.html", rows=rows, sees_policy=True))
    page: GroupPage = hostile(group_page(view_of(world), "default"))
    assert_harmless(render("administration/group.html", page=page, sees_policy=True))
