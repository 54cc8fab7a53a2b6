"""Reviews that take longer than a page: what is known is shown at once, and the rest when it is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from bai.web.panel.plans import commit_reviews
from reconciler.review.between_commits import review_of
from reconciler.review.review_json import dump_review
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.plan import PlanError
from tests.bai.web.panel.held_planning import HeldPlanning
from tests.bai.web.panel.markup import check_names, check_policy, parsed
from tests.bai.web.panel.plans.following import GPU, FollowingLab, fields_of, opened, send, visitor
from tests.bai.web.panel.rendering import HOSTILE
from tests.reconciler.lab import session
from tests.waiting import until

NEXT: dict[str, str | None] = {"c.yaml": session("c", GPU)}
POLL = {"HX-Request": "true", "HX-Trigger": "planning", "HX-Target": "main"}


class HeldLab(HeldPlanning, FollowingLab):
    """Whose reviews are held."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.hold_calls(patch, commit_reviews, "reviewed_commit")

    def close(self) -> None:
        self.let_go()
        super().close()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLab]:
    made = HeldLab(tmp_path, monkeypatch)
    yield made
    made.close()


def page_of(browser: TestClient, commit: str = "next", **headers: str) -> str:
    answer = browser.get("/clusters/here/review", params={"commit": commit}, headers=headers)
    assert answer.status_code == 200, answer.text
    text: str = answer.text
    return text


def is_there(browser: TestClient, commit: str = "next") -> bool:
    answer = browser.get("/clusters/here/review", params={"commit": commit}, headers=POLL)
    return answer.headers.get("hx-refresh") == "true"


def test_what_is_known_is_shown_at_once_and_the_review_when_it_is_there(lab: HeldLab) -> None:
    commit = lab.push(NEXT, "next", message=f"one more {HOSTILE}")
    lab.once()
    ada, bob = visitor(lab, "admin"), visitor(lab)
    for browser in (ada, bob, ada):
        page = page_of(browser)
        assert "Being planned" in page and commit[:12] in page and "one more &lt;img" in page
        assert "create</span> <code>c.yaml</code>" in page and "/orders/" not in page
        assert '<noscript><meta http-equiv="refresh" content="3"></noscript>' in page
        assert 'hx-get="" hx-trigger="load delay:300ms, every 1s"' in page
        seen = parsed(page)
        check_policy(seen)
        check_names(seen)
    until(lambda: "planning" in page_of(ada, **POLL) and lab.made == 1, "it is begun")
    assert not is_there(ada)
    assert bob.get("/clusters/here/nodes").status_code == 200, "nobody else waits"
    lab.free.set()
    until(lambda: is_there(ada), "it is there")
    assert is_there(bob) and lab.made == 1
    page = opened(ada, "next")
    assert "Being planned" not in page and fields_of(page, "approve")["seen"].startswith(commit)
    assert send(ada, "approve", **fields_of(page, "approve")).status_code == 303
    assert "Session/p/c" in page_of(bob).replace("</a>", "")


def test_what_is_wrong_with_a_plan_ends_the_waiting(lab: HeldLab) -> None:
    lab.wrong = PlanError(why="it cannot be")
    lab.push(NEXT, "next")
    lab.once()
    ada = visitor(lab)
    assert "Being planned" in page_of(ada)
    lab.free.set()
    until(lambda: is_there(ada), "it has ended")
    answer = ada.get("/clusters/here/review?commit=next")
    assert answer.status_code == 404 and "it cannot be" in answer.text
    lab.push({"c.yaml": session("c", "priority: high")}, "next")
    lab.once()
    until(lambda: is_there(ada) or "cannot be used" in page_of(ada), "this has ended, too")
    assert "Its documents cannot be used" in page_of(ada)


def test_a_review_stays_while_it_is_made_anew_and_orders_wait_for_the_new_one(
    lab: HeldLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_reviews, "STALE", 0.0)
    commit = lab.push(NEXT, "next")
    lab.once()
    ada = visitor(lab, "operator")
    lab.free.set()
    until(lambda: "Being planned" not in opened(ada, "next"), "it is there")
    page = opened(ada, "next")
    until(lambda: lab.planning._workers == 0, "nothing is planned")
    lab.free.clear()
    lab.world.die(next(iter(lab.world.kernels)))
    lab.once()
    monkeypatch.setattr("bai.web.panel.plans.planning_queue.KEPT", 0.0)
    again = opened(ada, commit)
    assert "it is being planned anew" in again and "Session/p/c" in again.replace("</a>", "")
    assert 'id="renewing"' in again
    # An order is compared with what it would change now, which takes as long as it takes.
    monkeypatch.setattr(commit_reviews, "ORDER_PATIENCE", 0.0)
    refused = send(ada, "approve", **fields_of(page, "approve"))
    assert refused.status_code == 503 and "nothing was ordered" in refused.text
    monkeypatch.setattr(commit_reviews, "ORDER_PATIENCE", 300.0)
    lab.free.set()
    assert send(ada, "approve", **fields_of(page, "approve")).status_code == 303
    until(lambda: "planned anew" not in opened(ada, commit), "it is the new one")


def test_many_commits_of_one_visitor_are_not_planned_all(lab: HeldLab) -> None:
    ada = visitor(lab)
    commits = [lab.push({"c.yaml": session(f"c{number}", GPU)}, f"b{number}") for number in range(8)]
    lab.once()
    for commit in commits:
        assert "planned" in page_of(ada, commit)
    assert len(lab.planning._questions) <= 6
    assert ada.get("/clusters/here/queue").status_code == 200
    lab.free.set()
    until(lambda: is_there(ada, commits[-1]), "the last one is there")
    assert lab.made <= 6 and len(lab.reviews._reviews) <= commit_reviews.MOST_KEPT


def test_what_is_remembered_between_reviews_changes_none_of_them(lab: HeldLab) -> None:
    """Byte for byte what somebody finds out who knows nothing."""
    lab.free.set()
    lab.planning.patience = 300.0
    changes: list[dict[str, str | None]] = [
        {"c.yaml": session("c", GPU)},
        {"c.yaml": session("c", GPU), "a.yaml": None},
        {"a.yaml": session("a", "resources: {cpu: 3, memory: 1GiB, cuda.device: 2}")},
        {},
        {"d.yaml": session("d", "resources: {cpu: 900}"), "b.yaml": session("b", "priority: 7")},
    ]
    names = [f"b{number}" for number in range(len(changes))]
    for name, change in zip(names, changes, strict=True):
        lab.push(change, name)
    for turn in range(2):
        lab.once()
        workspace = lab.loop.workspace
        for name in names:
            found = lab.reviews.find(name)
            made = lab.reviews.review(found, "ada").review
            anew = Workspace.at(
                replace(workspace.source), cluster="here", state=workspace.store, clock=workspace.clock,
            )  # fmt: skip
            assert dump_review(made) == dump_review(review_of(anew, found.commit)), (turn, name)
        lab.world.die(next(iter(lab.world.kernels)))
