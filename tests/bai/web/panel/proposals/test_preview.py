"""What somebody who writes a session is told: what it would get, or why not; and nothing of others."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bai.web.auth.roles import Principal
from bai.web.panel.proposals.preview import Preview, ProblemRow
from bai.web.panel.proposals.requests import ChangeRequest
from bai.web.panel.proposals.turns import LatestTurns
from bai.web.panel.proposals.views import (
    change_page,
    draft_preview,
    new_page,
    start_text,
)
from providers.fake import FakeProvider
from tests.bai.web.lab import WHO, Lab
from tests.bai.web.panel.rendering import HOSTILE, SECRET, assert_harmless, hostile, render, texts_of, view_of
from tests.reconciler.lab import session
from tests.waiting import until

QUOTA = """
apiVersion: bai/v1
kind: Quota
metadata: {name: of-p}
spec: {subject: {project: p}, total: {cuda.device: 2}}
"""
POLICY = """
apiVersion: bai/v1
kind: Policy
metadata: {name: no-eve}
spec:
  match: {kinds: [Session]}
  validations:
    - {expression: '!has(after.spec.env.WHO) || after.spec.env.WHO != "eve"', message: eve runs nothing}
"""
POOL = """
apiVersion: bai/v1
kind: NodePool
metadata: {name: pool}
spec:
  namePattern: "m-[1-2]"
  resourceGroup: default
  hardware: {numaNodes: [{id: 0, cpus: 0-3, memory: 8GiB}]}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A project with one GPU of four in use, and two as its quota."""
    made = Lab(tmp_path)
    monkeypatch.setattr("providers.registry.open_provider", lambda *_, **__: FakeProvider(made.world))
    made.write("quota", QUOTA)
    made.write("pool", POOL)
    made.write("own", session("own", "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}, preemptible: true"))
    assert made.once(), made.lines
    yield made
    made.close()


def preview(lab: Lab, text: str, who: str = "viewer") -> Preview:
    desk = lab.app.state.proposals.by_cluster["here"]
    return draft_preview(view_of(lab, who), desk, Principal(who, WHO[who]), text)


def new(spec: str, name: str = "new") -> str:
    return session(name, spec)


def test_what_it_would_get_is_what_it_gets(lab: Lab) -> None:
    text = new("resources: {cpu: 2, memory: 1GiB, cuda.device: 1}")
    found = preview(lab, text)
    (row,) = found.given
    assert found.headline == f"It would start on {row.node}" and row.devices.startswith("gpu ")
    (picture,) = found.pictures
    own = [core for numa in picture.numa_nodes for core in numa.cores if core.holder and core.holder.own]
    assert len(own) == 2 and all(core.holder and core.holder.name == "new" for core in own)
    (quota,) = found.quotas
    assert (quota.before, quota.after, quota.limit) == ("1", "2", "2")
    lab.write("new", text)
    assert lab.once(), lab.lines
    done = lab.hub.clusters["here"].good
    assert done is not None and done.actual is not None
    placement = done.actual.existing["Session/p/new"].recorded.placement
    assert placement is not None and [each.node for each in placement.kernels] == [row.node]


def test_why_it_would_wait_has_numbers(lab: Lab) -> None:
    over = preview(lab, new("resources: {cpu: 1, memory: 1GiB, cuda.device: 2}"))
    assert over.headline == "It would wait" and over.wait is not None and not over.given
    assert [code for code, _ in over.wait.reasons] == ["quota"] and "2" in over.wait.reasons[0][1]
    much = preview(lab, new("resources: {cpu: 64, memory: 1GiB}"))
    assert much.wait is not None and "impossible" in [code for code, _ in much.wait.reasons]
    held = preview(lab, new("hold: true"))
    assert held.wait is not None and held.wait.is_held
    after = preview(lab, new("dependsOn: [Session/p/own]"))
    assert after.given  # It runs already.


def test_what_a_policy_refuses_is_said(lab: Lab) -> None:
    lab.write("policy", POLICY)
    assert lab.once(), lab.lines
    assert preview(lab, new("env: {WHO: ada}")).refused == ()
    refused = preview(lab, new("env: {WHO: eve}"))
    assert "eve runs nothing" in "".join(refused.refused) and "refuses it" in refused.headline


def test_what_is_wrong_has_its_place(lab: Lab) -> None:
    found = preview(lab, new("resources: {cpus: 1}"))
    assert not found.given and re.fullmatch(r"sessions/p/new\.yaml:\d+:\d+", found.problems[0].place)
    assert preview(lab, "a: [").problems[0].place.startswith("new session:")
    assert "is already there" in preview(lab, new("", "own")).problems[0].message
    assert preview(lab, "").problems and preview(lab, "kind: Node").problems


@pytest.mark.parametrize("who", ["viewer", "ours"])
def test_an_empty_session_says_what_to_fill_in(lab: Lab, who: str) -> None:
    view, desk = view_of(lab, who), lab.app.state.proposals.by_cluster["here"]
    text = start_text(view, desk, Principal(who, WHO[who]), template="", project="", copied="")
    found = preview(lab, text, who)
    assert not found.problems and found.headline == "Give it a name: what it would get is shown then"
    page = render("proposals/new.html", page=new_page(view, text, found))
    assert "Give it a name" in page and ">wrong<" not in page and ">waits<" not in page
    neither = preview(lab, "{apiVersion: bai/v1, kind: Session, metadata: {name: '', project: }}", who)
    assert neither.headline.startswith("Give it a name and a project:")
    named = [text.replace("  project: p", f"  name: {name}\n  project: p") for name in ("run", "A b")]
    assert preview(lab, named[0], who).given and preview(lab, named[1], who).problems


def test_nothing_is_changed_by_looking(lab: Lab) -> None:
    before = sorted(each.name for each in lab.folder.rglob("*"))
    preview(lab, new(""))
    lab.once()
    assert sorted(each.name for each in lab.folder.rglob("*")) == before


def test_a_session_begins_with_a_template_or_a_copy(lab: Lab) -> None:
    view, desk = view_of(lab), lab.app.state.proposals.by_cluster["here"]
    who = Principal("viewer", WHO["viewer"])
    page = new_page(view, start_text(view, desk, who, template="fit", project="", copied=""))
    assert (page.values["template"], page.values["project"]) == ("fit", "p") and page.values["cpu"] == ""
    page = new_page(view, start_text(view, desk, who, template="", project="", copied="Session/p/own"))
    assert (page.values["name"], page.values["gpus"]) == ("own-copy", "1") and "preemptible" in page.text


def test_a_machine_of_a_pool_has_no_document_of_its_own(lab: Lab) -> None:
    who = Principal("operator", WHO["operator"])
    asked = ChangeRequest("node", "Node/m-1", "cordoned")
    page = change_page(view_of(lab, "operator"), lab.app.state.proposals.by_cluster["here"], who, asked)
    assert "NodePool" in page.problems[0].message and not page.diff


@pytest.mark.parametrize(
    "text",
    [
        new("resources: {cuda.device: 4, cpu: 1}"),
        new("resources: {cuda.device: 1, cpu: 1}, priority: 900"),
        new("resources: {cpu: 1}"),
        new("mounts: [{volume: none, path: /d}]"),
        new("from: {template: none}"),
    ],
)
def test_a_viewer_of_one_project_sees_nothing_of_another(world: Lab, text: str) -> None:
    found = preview(world, text, "ours")
    shown = [each for each in texts_of(found) if SECRET in each]
    assert shown == [], shown
    assert SECRET not in render("proposals/new.html", page=new_page(view_of(world, "ours"), "", found))


def test_texts_stay_texts(world: Lab) -> None:
    view, who = view_of(world), Principal("viewer", WHO["viewer"])
    desk = world.app.state.proposals.by_cluster["here"]
    for text in (new("resources: {cpu: 1, cuda.device: 1}"), new("resources: {cuda.device: 4, cpu: 1}"), "{"):
        page = new_page(view, text, hostile(preview(world, text)))
        assert_harmless(render("proposals/new.html", page=page))
        typed = replace(page, text=HOSTILE, values=dict.fromkeys(page.values, HOSTILE))
        shown = render("proposals/new.html", page=typed)  # What is typed stays as it is, in fields.
        assert "<img" not in shown and "60481729" not in shown
    for asked in (
        ChangeRequest("end", "Session/p/own"),
        ChangeRequest("node", "Node/n1", "drained"),
        ChangeRequest("edit", "Node/n1"),
    ):
        change = replace(hostile(change_page(view, desk, who, asked)), asked=asked, base="")
        if asked.needs_text:
            change = replace(change, text="")  # In a field it stays as it is.
        failed = (ProblemRow(HOSTILE, HOSTILE, HOSTILE),)
        assert_harmless(render("proposals/change.html", page=change, failed=failed, reason="typed"))


def test_the_latest_question_of_a_person_wins() -> None:
    turns, answered, begun, go_on = LatestTurns(2), list[str](), threading.Event(), threading.Event()

    def ask(person: str, name: str) -> None:
        with turns.turn(person) as is_latest:
            if name == "first":
                begun.set()
                go_on.wait()
            answered.append(f"{name}: {is_latest}")

    threads = [threading.Thread(target=ask, args=("ada", "first"))]
    threads[0].start()
    begun.wait()
    for name in ("second", "third"):
        threads.append(threading.Thread(target=ask, args=("ada", name)))
        threads[-1].start()
        wanted = {"second": 1, "third": 2}[name]
        until(lambda: turns.waiting == 1 and len(answered) == wanted - 1, "it has asked")  # noqa: B023
    until(lambda: answered == ["second: False"], "the second one is sent away")
    ask("bob", "bob")
    go_on.set()
    for thread in threads:
        thread.join()
    assert answered == ["second: False", "bob: True", "first: True", "third: True"]
