"""What fits, and why somebody waits, is told of what the loop planned: nobody plans for who asks, and nothing
is counted again while nothing has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bai.queries.explanation import explain_session
from planner.advice import capacity
from providers.fake import Fault
from reconciler.controller.pass_studies import PassStudies
from reconciler.plan import pipeline
from tests.bai.web.lab import Lab
from tests.bai.web.panel.logins import logged_in
from tests.bai.web.panel.rendering import two_projects, view_of
from tests.reconciler.lab import session

HERE = "/clusters/here"
PAGES = (
    f"{HERE}/capacity", f"{HERE}/groups", f"{HERE}/groups/default", f"{HERE}/projects", f"{HERE}/users",
    f"{HERE}/sessions/p/waiting?explain=true",
)  # fmt: skip
API = "/api/v1/clusters/here/commands"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    two_projects(made)
    yield made
    made.close()


@pytest.fixture
def made(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what costs was made."""
    found: Counter[str] = Counter()
    _count(monkeypatch, pipeline, "prepare", found)
    for name in ("capacities", "group_views", "repartitions"):
        _count(monkeypatch, capacity, name, found)
    return found


def _count(monkeypatch: pytest.MonkeyPatch, module: object, name: str, found: Counter[str]) -> None:
    do = getattr(module, name)

    def counted(*given: object) -> object:
        found[name] += 1
        return do(*given)

    monkeypatch.setattr(module, name, counted)


def ask(lab: Lab) -> None:
    for who in ("viewer", "ours"):
        for question in ("capacity", "explain?session=waiting"):
            assert lab.get(f"{API}/{question}", who)
        client = logged_in(lab, who)
        for page in PAGES:
            answer = client.get(page)
            assert answer.status_code == 200, (page, answer.text)


def test_nobody_plans_or_counts_again_while_nothing_changes(lab: Lab, made: Counter[str]) -> None:
    for _ in range(2):
        ask(lab)
        assert made == {"capacities": 1, "group_views": 1, "repartitions": 1}
        assert lab.once() and made["prepare"] == 0


def test_after_a_pass_that_did_something_nobody_plans_either(lab: Lab, made: Counter[str]) -> None:
    lab.write("more", session("more", "resources: {cpu: 1}"))
    assert lab.once()
    planned = made["prepare"]
    assert planned > 0
    ask(lab)
    assert (made["prepare"], made["capacities"]) == (planned, 1)


def test_it_is_what_a_plan_made_then_says(lab: Lab) -> None:
    lab.write("more", session("more", "resources: {cpu: 1}"))
    lab.drop("own")
    assert lab.once()
    assert lab.hub.clusters["here"].latest is not None
    _assert_as_planned_anew(lab)
    lab.once()
    _assert_as_planned_anew(lab)


def _assert_as_planned_anew(lab: Lab) -> None:
    done = lab.hub.clusters["here"].latest
    assert done is not None and done.study is not None
    anew = replace(done, study=None, result=None)
    view, now = view_of(lab), lab.world.clock.now()
    assert view.capacities == PassStudies().capacities(anew, now)
    kept, made = view.study, PassStudies().study(anew, now)
    why = [{name: wait.reasons for name, wait in each.placed.waits.items()} for each in (kept, made)]
    assert why[0] == why[1] and kept.plan.violations == made.plan.violations
    for name in ("own", "waiting", "more"):
        if f"Session/p/{name}" in view.actual.existing:
            told = explain_session(view, name)
            assert told.plan == "" and told.phase and told.nodes


def test_who_ends_while_a_plan_is_carried_out_holds_nothing(lab: Lab) -> None:
    lab.write("more", session("more", "resources: {cpu: 1}"))
    kernel = next(each for each in lab.world.kernels if each.startswith("own-"))
    create = lab.workspace.provider.create

    def end_another(*given: object) -> object:
        lab.world.die(kernel)
        return create(*given)  # type: ignore[arg-type]

    lab.workspace.provider.create = end_another  # type: ignore[method-assign, assignment]
    assert lab.once()
    view = view_of(lab)
    assert view.actual.existing["Session/p/own"].phase == "ERROR"
    for snapshot in (view.study.before, view.study.after):
        running = {each.request.id for each in snapshot.running}
        assert "Session/p/more" in running and "Session/p/own" not in running


def test_what_failed_is_still_to_be_done(lab: Lab) -> None:
    lab.write("more", session("more", "resources: {cpu: 1}"))
    lab.world.inject(Fault("create", times=9))
    lab.once()
    told = explain_session(view_of(lab), "more")
    assert told.plan.startswith("create it")
    assert "Session/p/more" in {each.request.id for each in view_of(lab).study.after.running}
