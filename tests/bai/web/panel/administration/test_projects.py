"""Projects and their quotas: figures that the planner and `bai report usage` say, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from bai.queries import usage
from bai.queries.models import UsageQuery
from bai.web.panel.administration.projects import ProjectRow, project_list, project_page
from bai.web.panel.administration.quotas import QuotaRow, quota_rows
from bai.web.panel.administration.tally import USAGE_DAYS
from planner.admission.quota import quota_standings
from planner.model.types import GroupInfo, PreemptionRule, Snapshot
from schemas.problems.errors.command import NoSuchResource
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import (
    SECRET,
    assert_harmless,
    hostile,
    render,
    texts_of,
    view_of,
)
from tests.planner.support import session as request
from tests.planner.test_cohorts import NODES, quota, running
from tests.reconciler.lab import BASE, session


def rows(lab: Lab, who: str = "viewer") -> dict[str, ProjectRow]:
    return {row.name: row for row in project_list(view_of(lab, who)).rows}


def quotas(lab: Lab, who: str = "viewer") -> dict[str, QuotaRow]:
    return {row.name: row for row in quota_rows(view_of(lab, who))}


def test_a_row_tells_what_a_project_holds_and_waits_for(world: Lab) -> None:
    found = rows(world)
    assert list(found) == ["p", SECRET]
    own = found["p"]
    assert own.now.phases == (("PENDING", 1), ("RUNNING", 2))
    assert (own.now.gpus, own.now.cores, own.now.memory) == ("1", "3", "2GiB")
    assert own.now.since == "2027-01-15T08:01:00Z"
    assert (own.members, found[SECRET].members) == (2, 2)
    assert (found[SECRET].now.gpus, found[SECRET].now.cores) == ("2", "3")


def test_hours_are_those_of_the_report(world: Lab) -> None:
    view = view_of(world)
    query = UsageQuery(form="json", by="project", since=view.now - USAGE_DAYS * 86_400)
    report = usage.answer(view, query).document
    assert report is not None
    told = {item["project"]: item["gpuHours"] for item in report["items"]}
    shown = rows(world)
    assert told["p"] > 0
    for name, hours in told.items():
        assert float(shown[name].hours.gpu) == round(hours, 1)


def test_quotas_have_the_figures_of_the_plan(world: Lab) -> None:
    view = view_of(world)
    told = {use.quota: use.after for use in view.plan.quotas}
    assert told["p-cores"] == {"cpu": 3000, "cuda.device": 1, "mem": 2 << 30}
    standing = {each.limit.name: each for each in quota_standings(view.present)}
    assert {name: each.used for name, each in standing.items()} == told


def test_what_is_borrowed_is_told_with_from_whom_and_what_comes_back(world: Lab) -> None:
    found = quotas(world)
    own, lender = found["p-cores"], found[f"{SECRET}-cores"]
    cpu = next(each for each in own.slots if each.name == "cpu")
    assert (cpu.used, cpu.limit, cpu.fill, cpu.borrowed) == ("3", "2", 10, "1")
    assert (cpu.lenders, cpu.reclaimable) == ((f"{SECRET}-cores",), "1")
    assert own.borrowed == "cpu 1" and own.rules == ("at most 7 wait",)
    assert (own.running, found["few"].running) == ("2", "2 of 9")
    lent = next(each for each in lender.slots if each.name == "cpu")
    assert (lent.used, lent.limit, lent.borrowed, lent.lent) == ("3", "6", "", "1")


def test_who_waits_for_a_quota_is_counted(world: Lab) -> None:
    view = view_of(world)
    told = sum(any(reason.lacks == "quota few" for reason in wait.reasons) for wait in view.waits.values())
    assert quotas(world)["few"].held_back == told == 1


@pytest.mark.parametrize(("cores", "lent"), [(7, 3_000), (4, 0)])
def test_only_what_others_hold_is_lent(cores: int, lent: int) -> None:
    held = running(request("big", cpu=cores, project="a"))
    snapshot = Snapshot(NODES, (GroupInfo("main"),), (quota("a", 4), quota("b", 4)), held)
    _, other = quota_standings(snapshot)
    assert other.lent.get("cpu", 0) == lent


def test_only_what_may_be_pushed_out_comes_back() -> None:
    held = running(
        request("kept", cpu=5, project="a"), request("gives", cpu=1, project="a", preemptible=True)
    )
    rules = (None, PreemptionRule())
    back = []
    for rule in rules:
        group = GroupInfo("main", preemption=rule)
        first, _ = quota_standings(Snapshot(NODES, (group,), (quota("a", 4), quota("b", 4)), held))
        back.append((first.borrowed, first.reclaimable))
    assert back == [({"cpu": 2000}, {}), ({"cpu": 2000}, {"cpu": 1000})]


def test_its_page_tells_who_is_in_it(world: Lab) -> None:
    page = project_page(view_of(world), "p")
    assert [(each.name, each.is_member, each.is_active) for each in page.members] == [
        ("ada", True, True),
        ("bob", True, False),
    ]
    assert page.members[0].now.phases == (("RUNNING", 1),)
    text = render("administration/project.html", page=page, days=USAGE_DAYS)
    assert 'href="/clusters/here/users/ada"' in text and "1</b> of what zebra-cores does not use" in text
    assert 'href="/clusters/here/sessions?phase=running&amp;project=p&amp;owner=ada"' in text


def test_of_another_project_nothing_is_told(world: Lab) -> None:
    view = view_of(world, "ours")
    found = project_list(view)
    assert [row.name for row in found.rows] == ["p"]
    page = project_page(view, "p")
    assert SECRET not in "".join((*texts_of(found), *texts_of(page)))
    assert [each.name for each in page.row.quotas] == ["few", "p-cores"]
    cpu = next(each for each in page.row.quotas[1].slots if each.name == "cpu")
    assert cpu.lenders == ("others of the cohort",)
    with pytest.raises(NoSuchResource):
        project_page(view, SECRET)


def test_it_is_chosen_by_name(world: Lab) -> None:
    view = view_of(world)
    assert [row.name for row in project_list(view, "ZEB").rows] == [SECRET]
    none = project_list(view, "nothing")
    assert none.rows == () and none.query(page=2) == {"q": "nothing", "page": 2}
    assert "There is no such project." in render("administration/projects.html", list=none, days=1)


def test_what_is_hostile_stays_text(world: Lab) -> None:
    view = view_of(world)
    assert_harmless(render("administration/projects.html", list=hostile(project_list(view)), days=1))
    assert_harmless(render("administration/project.html", page=hostile(project_page(view, "p")), days=1))


def test_a_project_without_a_document_is_shown_as_long_as_it_has_sessions(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write("base", f"{BASE}---\napiVersion: bai/v1\nkind: Project\nmetadata: {{name: q}}\nspec: {{}}\n")
    lab.write("s", session("s").replace("project: p", "project: q"))
    assert lab.once(), lab.lines
    assert {row.name: row.is_written for row in project_list(view_of(lab)).rows} == {"p": True, "q": True}
    lab.write("base", BASE)
    lab.drop("s")
    lab.world.down |= {"n1": "no answer", "n2": "no answer"}
    lab.once()
    assert {row.name: row.is_written for row in project_list(view_of(lab)).rows} == {"p": True, "q": False}
    lab.close()
