"""Nodes as `bai nodes list` has them, and their provisioning as the plan has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bai.queries.nodes import list_nodes
from bai.render.plan.node_rollout import rollout_lines
from bai.render.printout import Table
from bai.web.panel.administration.nodes import NodeListQuery, node_list
from bai.web.panel.administration.waves import waves_page
from bai.web.panel.views.node_page import node_page
from providers.fake_provisioner import FakeNodes, NodeFault
from reconciler.gitops.directives import Directive, issue_directive
from tests.bai.web.lab import Lab, bearer
from tests.bai.web.panel.administration.world import profiled
from tests.bai.web.panel.rendering import (
    SECRET,
    assert_harmless,
    bench_view,
    hostile,
    render,
    texts_of,
    view_of,
)
from tests.reconciler.lab import session


def test_rows_have_the_words_of_the_command(world: Lab) -> None:
    view = view_of(world)
    found = node_list(view, NodeListQuery())
    (table,) = list_nodes(view, "", "text").blocks
    assert isinstance(table, Table)
    shown = [(row.name, row.group, row.state, row.cores, row.memory, row.gpus) for row in found.rows]
    assert shown == list(table.rows)
    first, second = found.rows
    assert (first.rack, first.gpu_fill, second.gpu_fill) == (f"{SECRET}-n1", 10, 5)
    assert (found.groups, found.states, found.profiles) == (("default",), ("active",), ())


def test_a_viewer_of_one_project_sees_names_and_states(world: Lab) -> None:
    found = node_list(view_of(world, "ours"), NodeListQuery())
    assert [(row.name, row.state, row.rack, row.note) for row in found.rows] == [
        ("n1", "active", "", ""),
        ("n2", "active", "", ""),
    ]
    page = render("administration/nodes.html", list=found, shows_waves=False)
    assert SECRET not in page and "Provisioning" not in page


def test_a_node_says_why_it_is_as_it_is_to_who_sees_documents(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.once(), lab.lines
    lab.world.down["n2"] = f"{SECRET} does not answer"
    lab.once()
    query = NodeListQuery(state="unreachable")
    (row,) = node_list(view_of(lab), query).rows
    assert row.name == "n2" and f"{SECRET} does not answer" in row.note
    (row,) = node_list(view_of(lab, "ours"), query).rows
    assert row.state == "unreachable" and row.note == ""
    lab.close()


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"q": "N2"}, ["n2"]),
        ({"group": "default"}, ["n1", "n2"]),
        ({"group": "none"}, []),
        ({"state": "cordoned"}, []),
        ({"standing": "drifted"}, []),
    ],
)
def test_they_are_chosen(world: Lab, asked: dict[str, str], names: list[str]) -> None:
    found = node_list(view_of(world), NodeListQuery(**asked))  # type: ignore[arg-type]
    assert [row.name for row in found.rows] == names
    assert found.query(page=2) == {**asked, "page": 2}


def test_a_hundred_stand_on_a_page() -> None:
    with bench_view(130, 4) as view:
        first = node_list(view, NodeListQuery())
        last = node_list(view, NodeListQuery(page=2))
    assert (len(first.rows), len(last.rows), first.paging.count) == (100, 30, 2)
    assert "1 to 100 of 130" in render("administration/nodes.html", list=first, shows_waves=True)


@dataclass
class Machines:
    lab: Lab
    nodes: FakeNodes


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Nodes with a profile, none provisioned."""
    lab, nodes = profiled(tmp_path, monkeypatch)
    yield Machines(lab, nodes)
    lab.close()


def test_waves_are_those_of_the_plan(machines: Machines) -> None:
    lab = machines.lab
    issue_directive(lab.workspace.store, "here", "suspend", Directive("ada", 1.0, "wait"))
    lab.once()
    view = view_of(lab)
    page = waves_page(view)
    rollout = view.plan.rollout
    assert rollout is not None and rollout.wave
    assert [(row.wave, row.name) for row in page.turns] == [
        (number, node) for number, wave in enumerate((rollout.wave, *rollout.later), 1) for node in wave
    ]
    assert page.waves == 1 + len(rollout.later) and page.most == rollout.most
    (row,) = page.profiles
    assert (row.name, row.nodes) == ("std", 4)
    listed = {row.name: row.standing for row in node_list(view, NodeListQuery()).rows}
    assert (listed[rollout.wave[0]].word, listed[rollout.wave[0]].wave) == ("never", "this wave")
    assert listed[rollout.later[0][0]].wave == "wave 2"
    text = render("administration/waves.html", page=page)
    assert 'href="/clusters/here/nodes?profile=std&amp;standing=never"' in text
    assert_harmless(render("administration/waves.html", page=hostile(page)))


def settle(lab: Lab) -> None:
    """Until every node is as its profile says."""
    for _ in range(8):
        lab.once()
        found = node_list(view_of(lab), NodeListQuery())
        if found.standings == ("in step",):
            return
    raise AssertionError(lab.lines)


def test_drift_is_told_with_what_deviates_and_who_has_to_leave(machines: Machines) -> None:
    lab = machines.lab
    settle(lab)
    for number in range(4):
        name = f"s{number}"
        lab.write(name, session(name, "resources: {cuda.device: 2}"))
    assert lab.once(), lab.lines
    machines.nodes.drift("n3", "sysctl vm.swappiness", "1", "60")
    lab.once()
    view = view_of(lab)
    (row,) = node_list(view, NodeListQuery(standing="drifted")).rows
    assert row.name == "n3" and row.standing.profile == "std"
    assert row.standing.deviations == ("sysctl vm.swappiness is 60, sealed 1",)
    page = waves_page(view)
    held = dict(page.held_back)
    told = rollout_lines(view.plan)
    assert list(held) == ["n3"] and f"n3 waits: {held['n3']}" in told
    assert row.standing.wave == "held back"
    (theirs,) = node_list(view_of(lab, "ours"), NodeListQuery(standing="drifted")).rows
    assert theirs.standing.word == "drifted"
    assert (theirs.standing.deviations, theirs.standing.why, theirs.standing.profile) == ((), "", "")
    for who, is_told in (("viewer", True), ("ours", False)):
        page = node_page(view_of(lab, who), "n3")
        assert page.profile == "drifted" and bool(page.profile_lines) is is_told
        rows = list_nodes(view_of(lab, who), "n3", "json").document["nodes"]
        assert [row["profile"] for row in rows] == ["std" if is_told else ""]
        assert bool(rows[0]["provisioning"]["deviations"]) is is_told


def test_what_failed_is_told_with_since_when(machines: Machines) -> None:
    lab = machines.lab
    machines.nodes.inject(NodeFault("n1", "fail", why=f"{SECRET} broke"))
    lab.once()
    page = waves_page(view_of(lab))
    (row,) = page.failed
    assert (row.name, row.profile) == ("n1", "std") and f"{SECRET} broke" in row.why and row.since
    (listed,) = node_list(view_of(lab), NodeListQuery(standing="failed")).rows
    assert listed.standing.at == row.since
    theirs = node_list(view_of(lab, "ours"), NodeListQuery())
    assert SECRET not in "".join(texts_of(theirs))
    assert SECRET not in "".join(texts_of(node_page(view_of(lab, "ours"), "n1")))
    assert (
        SECRET
        not in lab.client.get("/api/v1/clusters/here/commands/nodes?form=json", headers=bearer("ours")).text
    )


def test_what_is_hostile_stays_text(world: Lab) -> None:
    found = hostile(node_list(view_of(world), NodeListQuery()).rows)
    page = node_list(view_of(world), NodeListQuery(q="none"))
    assert_harmless(render("administration/nodes.html", list=replace(page, rows=found), shows_waves=True))
