"""Orders that pages send: who may give them, of what, and that they are those of the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.app import create_app
from bai.web.auth.roles import StaticAccess
from bai.web.cluster_loops import ClusterLoops
from bai.web.panel.plans import commit_reviews
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.controller.standby import StandbyFollower
from reconciler.gitops.directives import Directives, read_directives
from reconciler.gitops.document_source import FollowedDocuments
from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.values.clock import VirtualClock
from reconciler.workspace.workspace import Workspace
from tests.bai.web.lab import Lab, doors, waiting
from tests.bai.web.panel.plans.following import (
    GPU,
    SAME,
    FollowingLab,
    fields_of,
    opened,
    send,
    token_of,
    visitor,
)
from tests.bai.web.panel.rendering import HOSTILE
from tests.bai.web.test_standby import StandbyServer, elect
from tests.reconciler.lab import session

ORDERS = ("suspend", "resume", "reconcile", "approve", "rollback")
NEXT: dict[str, str | None] = {"c.yaml": session("c", GPU)}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FollowingLab]:
    made = FollowingLab(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FollowingLab]:
    """To which nobody gives an order."""
    made = FollowingLab(tmp_path_factory.mktemp("still"))
    yield made
    assert orders(made) == Directives()
    made.close()


def orders(lab: Lab) -> Directives:
    return read_directives(lab.loop.workspace.store, "here")


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_needs_its_role_for_all_projects(still: FollowingLab, order: str) -> None:
    known = opened(visitor(still, "admin"), "main")
    fields = {key: value for key, value in fields_of(known, "rollback").items() if key != "token"}
    for token in ("viewer", "ours", "operator-of-p", *(["operator"] if order == "rollback" else [])):
        browser = visitor(still, token)
        answer = send(browser, order, token=token_of(browser), why="x", **fields)
        assert answer.status_code == 403, token
    stranger = still.client.post(
        f"/clusters/here/orders/{order}", data={"why": "x", **fields}, headers=SAME, follow_redirects=False
    )
    assert stranger.status_code == 303 and stranger.headers["location"].startswith("/login")
    assert orders(still) == Directives()


@pytest.mark.parametrize("order", ORDERS)
def test_what_was_not_sent_by_a_page_of_this_login_orders_nothing(still: FollowingLab, order: str) -> None:
    browser, other = visitor(still, "admin"), visitor(still, "admin")
    page = opened(browser, "main")
    fields = {**fields_of(page, "rollback"), "why": "x"}
    for token in ("", "0" * 64, token_of(other)):
        assert send(browser, order, **{**fields, "token": token}).status_code == 403
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.test"}, {}):
        answer = browser.post(f"/clusters/here/orders/{order}", data=fields, headers=headers)
        assert answer.status_code == 403
    assert orders(still) == Directives()


def test_forms_stand_where_the_role_may_and_nowhere_else(still: FollowingLab) -> None:
    for token, shown, hidden in (
        ("viewer", (), ("suspend", "reconcile", "approve", "rollback", "resume")),
        ("operator", ("suspend", "reconcile", "approve"), ("rollback", "resume")),
        ("admin", ("suspend", "reconcile", "approve", "rollback"), ("resume",)),
    ):
        browser = visitor(still, token)
        pages = "".join(browser.get(f"/clusters/here/{each}").text for each in ("plan", "history", "reviews"))
        pages += opened(browser, "main")
        for order in shown:
            assert f'action="/clusters/here/orders/{order}"' in pages, (token, order)
        for order in hidden:
            assert f'action="/clusters/here/orders/{order}"' not in pages, (token, order)


def test_suspended_and_resumed_with_a_reason_that_everybody_reads(lab: FollowingLab) -> None:
    browser = visitor(lab, "operator")
    token = token_of(browser)
    assert send(browser, "suspend", token=token, why=" ").status_code == 422
    assert send(browser, "suspend", token=token, why="x" * 501).status_code == 422
    done = send(browser, "suspend", token=token, why=f"maintenance {HOSTILE}")
    assert (done.status_code, done.headers["location"]) == (303, "/clusters/here/plan")
    assert (told := orders(lab).suspend) is not None
    assert (told.actor, told.why) == ("operator", f"maintenance {HOSTILE}")
    lab.push(NEXT)
    lab.once()
    for page in ("plan", "reviews", "history", "", "audit"):
        text = visitor(lab).get(f"/clusters/here/{page}".rstrip("/")).text
        assert "operator" in text and "maintenance &lt;img" in text and "<img" not in text, page
    ours = visitor(lab, "ours").get("/clusters/here").text
    assert "suspended by an operator" in ours and "maintenance" not in ours
    assert send(browser, "resume", token=token, why="done").status_code == 303
    assert orders(lab).suspend is None
    entries = [(each.verb, each.actor, each.cause) for each in lab.loop.workspace.store.audit("here")][-2:]
    assert entries == [("suspend", "operator", told.why), ("resume", "operator", "done")]


def test_to_look_now_wakes_the_loop(lab: FollowingLab, monkeypatch: pytest.MonkeyPatch) -> None:
    woken = list[bool]()
    monkeypatch.setattr(lab.loop, "wake", lambda: woken.append(True))
    browser = visitor(lab, "operator")
    assert send(browser, "reconcile", token=token_of(browser)).status_code == 303
    assert woken == [True]


def test_what_waits_is_approved_as_it_was_seen_and_carried_out(lab: FollowingLab) -> None:
    browser = visitor(lab, "operator")
    commit = lab.push(NEXT, message="one more")
    lab.once()
    assert lab.commit != commit
    listed = browser.get("/clusters/here/reviews").text
    assert f"{commit[:12]} waits for approval" in listed and "one more" in listed
    page = opened(browser, "main")
    fields = fields_of(page, "approve")
    assert fields["named"] == "main" and fields["seen"].startswith(f"{commit}-")
    done = send(browser, "approve", **fields, why="looks good")
    assert done.headers["location"] == "/clusters/here/reviews"
    told = orders(lab).approve
    assert told is not None and (told.actor, told.why, told.commit) == ("operator", "looks good", commit)
    lab.once()
    assert lab.commit == commit
    text = browser.get("/clusters/here/reviews").text
    assert "waits for approval" not in text and "What is followed is in force." in text
    assert "looks good" in browser.get("/clusters/here").text
    ours = visitor(lab, "ours").get("/clusters/here").text
    assert "by an operator" in ours and "looks good" not in ours


def test_a_branch_that_has_moved_is_not_approved_and_that_is_said(lab: FollowingLab) -> None:
    browser = visitor(lab, "operator")
    first = lab.push(NEXT)
    lab.once()
    fields = fields_of(opened(browser, "main"), "approve")
    second = lab.push({"evil.yaml": session("evil", GPU)})
    lab.once()
    refused = send(browser, "approve", **fields)
    assert refused.status_code == 303 and orders(lab).approve is None
    page = browser.get(refused.headers["location"]).text
    assert "This has moved since you looked: nothing was ordered" in page and second[:12] in page
    assert "/orders/approve" not in page, "not before it was looked at as it is now"
    assert fields["seen"].startswith(first)
    assert fields_of(opened(browser, "main"), "approve")["seen"].startswith(second)


def test_news_that_comes_into_an_open_page_takes_the_order_away(lab: FollowingLab) -> None:
    browser = visitor(lab, "operator")
    lab.push(NEXT)
    lab.once()
    answer = browser.get("/clusters/here/review?commit=main", follow_redirects=True)
    address, asks = str(answer.url), {"HX-Request": "true"}
    assert "/orders/approve" in browser.get(address, headers=asks).text
    lab.push({"evil.yaml": session("evil", GPU)})
    lab.once()
    news = browser.get(address, headers=asks).text
    assert "This has moved since you looked" in news and "/orders/approve" not in news
    assert "seen=" not in str(visitor(lab).get("/clusters/here/review?commit=main").url)


def test_pages_may_be_a_little_older_where_a_review_takes_long_and_orders_never(
    lab: FollowingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_reviews, "LONG", 0.0)
    monkeypatch.setattr(commit_reviews, "STALE", 1e9)
    lab.push(NEXT, "next")
    lab.once()
    found = lab.reviews.find("next")
    first = lab.reviews.look(found, "ada").made
    lab.world.die(next(iter(lab.world.kernels)))
    lab.once()
    assert lab.reviews.look(found, "ada").made is first
    second = lab.reviews.review(found, "ada")
    assert second is not first and lab.reviews.look(found, "ada").made is second


def test_what_would_change_something_else_by_now_is_not_approved(lab: FollowingLab) -> None:
    browser = visitor(lab, "operator")
    commit = lab.push({**NEXT, "a.yaml": None})
    lab.once()
    fields = fields_of(opened(browser, commit), "approve")
    other = {**fields, "seen": f"{commit}-{'0' * 64}"}
    for wrong in (other, {**fields, "seen": ""}, {**fields, "named": ""}, {**fields, "seen": "x" * 40}):
        answer = send(browser, "approve", **wrong)
        assert answer.status_code in (303, 422) and orders(lab).approve is None, wrong
    page = browser.get(send(browser, "approve", **other).headers["location"]).text
    assert "What this would change is not what you saw: nothing was ordered" in page
    assert send(browser, "approve", **fields).status_code == 303 and orders(lab).approve is not None


def test_an_admin_goes_back_after_having_seen_what_that_changes(lab: FollowingLab) -> None:
    start = lab.commit
    commit = lab.push({"c.yaml": session("c", GPU), "a.yaml": None})
    lab.once()
    browser = visitor(lab, "admin")
    send(browser, "approve", **fields_of(opened(browser, "main"), "approve"))
    lab.once()
    lab.once()
    assert lab.commit == commit
    page = opened(browser, start)
    assert "Session/p/c" in page and "Running sessions that do not stay" in page
    assert "It lacks 1 commit of what is followed" in page
    fields = fields_of(page, "rollback")
    assert send(browser, "rollback", **fields).status_code == 422
    assert orders(lab).pin is None
    assert send(browser, "rollback", **fields, why="c was wrong").headers["location"] == "/clusters/here/plan"
    lab.once()
    lab.once()
    assert lab.commit == start
    for place in ("plan", "reviews", "history", ""):
        text = browser.get(f"/clusters/here/{place}".rstrip("/")).text
        assert "c was wrong" in text and start[:12] in text, place
    send(browser, "resume", token=token_of(browser))
    assert orders(lab).pin is None


def test_a_folder_has_no_approval_and_none_is_offered(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.once()
    browser = visitor(lab, "admin")
    assert 'orders/suspend"' in browser.get("/clusters/here/plan").text
    assert "in no git repository" in browser.get("/clusters/here/reviews").text
    assert browser.get("/clusters/here/review?commit=main").status_code == 404
    fields = {"named": "main", "seen": f"{'0' * 40}-{'0' * 64}", "why": "x"}
    for order in ("approve", "rollback"):
        assert send(browser, order, token=token_of(browser), **fields).status_code == 404
    assert orders(lab) == Directives()
    lab.close()


def test_a_replica_that_stands_by_takes_orders_for_the_leader(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    second = StandbyServer(lab)
    elect(lab.loop, "first", second.awake).step()
    second.leader.step()
    lab.once()
    second.follower.follow()
    lab.app = waiting(create_app(second.hub, StaticAccess(doors())))
    browser = visitor(lab, "operator")
    before = orders(lab).reconcile_request
    assert send(browser, "suspend", token=token_of(browser), why="by the second").status_code == 303
    page = browser.get("/clusters/here/plan").text
    assert "by the second" in page and "another replica saw last" in page
    assert orders(lab).suspend is not None and orders(lab).reconcile_request != before
    second.close()
    lab.close()


def test_a_replica_that_stands_by_reviews_and_approves_what_it_has_to_fetch_first(
    lab: FollowingLab, tmp_path: Path
) -> None:
    store = lab.loop.workspace.store
    remote = Remote(str(lab.pair.bare), tmp_path / "second" / "copy.git")
    follow = RevisionTracker(TrackedRef(remote, "main"), store, "here")
    remote.folder.parent.mkdir()
    remote.fetch("main")
    workspace = Workspace.at(
        follow.source(lab.commit), cluster="here", state=store, clock=lab.world.clock,
    )  # fmt: skip
    documents, hub = FollowedDocuments(follow, approval=True), ClusterLoops()
    second = Loop(workspace, LoopOptions("second", 3600), log=lambda _: None, documents=documents)
    hub.add(second)
    awake = VirtualClock(1000.0)
    elect(lab.loop, "first", awake).step()
    elect(second, "second", awake).step()
    assert lab.loop.leads() and not second.leads()
    follower = StandbyFollower(second, hub.publish_pass)
    commit = lab.push(NEXT)
    lab.once()
    follower.follow()
    lab.app = waiting(create_app(hub, StaticAccess(doors())))
    browser = visitor(lab, "operator")
    listed = browser.get("/clusters/here/reviews").text
    assert "another replica saw last" in listed and commit[:12] in listed
    fields = fields_of(opened(browser, "main"), "approve")
    assert fields["seen"].startswith(commit)
    assert send(browser, "approve", **fields, why="from the second").status_code == 303
    lab.once()
    assert lab.commit == commit
    assert "from the second" in browser.get("/clusters/here/reviews").text
