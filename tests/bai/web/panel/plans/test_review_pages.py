"""What could be carried out next, and one commit before it is."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient

from bai.web.panel.plans import document_diffs, open_requests, reviews_page
from bai.web.panel.plans.commit_reviews import CommitReviews
from bai.web.panel.proposals.settings import ProposalSettings
from bai.web.panel.views.standing import OrderInForce, Powers, Standing
from reconciler.gitops.directives import read_directives
from reconciler.trust.gate import TrustGate
from reconciler.trust.trust_file import load_trust_settings
from tests.bai.web.lab import PATIENCE
from tests.bai.web.panel.markup import check_names, check_policy, parsed
from tests.bai.web.panel.plans.following import GPU, FollowingLab, fields_of, send, visitor
from tests.bai.web.panel.rendering import HOSTILE, assert_harmless, hostile, render
from tests.reconciler.gitops.repositories import git
from tests.reconciler.lab import session

ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FollowingLab]:
    made = FollowingLab(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FollowingLab]:
    """Which tests leave as it is."""
    made = FollowingLab(tmp_path_factory.mktemp("still"))
    yield made
    made.close()


def page_of(lab: FollowingLab, where: str, browser: TestClient | None = None, **asked: Any) -> str:
    browser = browser or visitor(lab)
    answer = browser.get(f"/clusters/here/{where}", params=asked, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    text: str = answer.text
    return text


def test_branches_with_more_are_listed_and_lead_to_their_reviews(lab: FollowingLab) -> None:
    lab.push({"c.yaml": session("c", GPU)}, "next", message="one more session")
    lab.push({}, "old")
    git(lab.pair.work, "push", "--quiet", "origin", "main:merged")
    lab.once()
    page = page_of(lab, "reviews")
    assert "commit=refs%2Fheads%2Fnext" in page and "one more session" in page and "Ada" in page
    assert "refs%2Fheads%2Fmerged" not in page and "refs%2Fheads%2Fmain" not in page
    review = page_of(lab, "review", commit="refs/heads/next")
    assert "<h1>Review of next</h1>" in review and "Session/p/c" in review.replace("</a>", "")
    assert '<span class="added">+ ' in review and "cuda.device: 1" in review
    assert review.count('<h4 class="label">before</h4>') == 1
    assert "It lacks" not in review
    assert 'href="/clusters/here/reviews" aria-current="page"' in review


def test_who_would_wait_and_which_quota_is_used_is_told(lab: FollowingLab) -> None:
    lab.push(
        {
            "c.yaml": session("c", "resources: {cpu: 1, memory: 1GiB, cuda.device: 2}"),
            "d.yaml": session("d", "resources: {cpu: 1, memory: 1GiB, cuda.device: 2}"),
            "q.yaml": "apiVersion: bai/v1\nkind: Quota\nmetadata: {name: q}\n"
            "spec: {subject: {project: p}, total: {cuda.device: 4}}\n",
        },
        "next",
    )
    lab.once()
    page = page_of(lab, "review", commit="next")
    assert "<h2>Waits</h2>" in page and "<caption>Quotas</caption>" in page, page


def test_what_a_policy_refuses_is_told(lab: FollowingLab) -> None:
    guard = "{match: {kinds: [Session]}, guards: {maxDeletions: {count: 0}}}"
    policy = f"apiVersion: bai/v1\nkind: Policy\nmetadata: {{name: care}}\nspec: {guard}\n"
    lab.push({"care.yaml": policy, "a.yaml": None}, "next")
    lab.once()
    page = page_of(lab, "review", commit="next")
    assert '<p class="refusal">Refused: ' in page and "Policy/care" in page.replace("</a>", "")


def test_documents_that_cannot_be_used_are_said_with_what_is_wrong(lab: FollowingLab) -> None:
    lab.push({"c.yaml": session("c", f"priority: '{ATTACK}'")}, "next")
    lab.once()
    page = page_of(lab, "review", commit="next")
    assert "Its documents cannot be used" in page and "c.yaml:5" in page and "<img" not in page
    assert "/orders/" not in page


def test_a_branch_behind_what_is_followed_says_what_it_lacks(lab: FollowingLab) -> None:
    lab.push({"c.yaml": session("c", GPU)}, "next")
    lab.push({"d.yaml": session("d", GPU)})
    lab.once()
    assert "It lacks 1 commit of what is followed" in page_of(lab, "review", commit="next")


def test_hostile_names_and_messages_stay_text(lab: FollowingLab) -> None:
    name = f"{ATTACK.replace(' ', '')}\u202e{{{{7777}}}}"
    commit = lab.push({"c.yaml": session("c", GPU)}, "next", message=f"{HOSTILE} --option")
    raw = b"refs/heads/\xff\xfe\xc0"
    for ref in (f"refs/heads/{name}".encode(), raw, b"refs/heads/-x", b"refs/heads/" + b"y" * 240):
        subprocess.run(
            [b"git", b"-C", str(lab.pair.bare).encode(), b"update-ref", ref, commit.encode()], check=True
        )
    lab.once()
    page = page_of(lab, "reviews")
    seen = parsed(page)
    check_policy(seen)
    check_names(seen)
    assert "<img" not in page and "\u202e" not in page and "\x1b" not in page and "&lt;img" in page
    links = [each["href"] or "" for each in seen.named("a") if "/review?" in (each["href"] or "")]
    assert len(links) >= 5
    browser = visitor(lab)
    for link in links:
        answer = browser.get(link)
        assert answer.status_code == 200, link
        assert "<img" not in answer.text and "\x1b" not in answer.text and "\u202e" not in answer.text
        check_policy(parsed(answer.text))


@pytest.mark.parametrize(
    ("named", "status"),
    [
        ("none", 404), ("#7", 404), ("--help", 404), ("a\0b", 404), ("\x1b[2J", 404), ("x" * 301, 422),
        ("#0", 404), ("#9999999999", 404), (ATTACK, 404),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(still: FollowingLab, named: str, status: int) -> None:
    browser = visitor(still)
    for address in ("review", "compare"):
        asked = {"commit": named} if address == "review" else {"to": named}
        answer = browser.get(f"/clusters/here/{address}", params=asked)
        assert answer.status_code == status and "<img" not in answer.text, address
        check_policy(parsed(answer.text))


def test_these_pages_are_for_who_sees_all_projects(still: FollowingLab) -> None:
    some = [visitor(still, token) for token in ("ours", "operator-of-p")]
    for page in ("reviews", "review?commit=main", "compare?to=main", "history", "history/here-1", "plan"):
        for browser in some:
            assert browser.get(f"/clusters/here/{page}").status_code == 403
        away = still.client.get(f"/clusters/here/{page}", follow_redirects=False)
        assert away.status_code == 303 and away.headers["location"].startswith("/login")
    text = visitor(still, "ours").get("/clusters/here").text
    assert "/reviews" not in text


@pytest.mark.parametrize("pattern", ["refs/pull/{}/head", "refs/merge-requests/{}/head"])
def test_what_a_fork_proposes_is_reviewed_and_never_comes_where_a_loop_looks(
    lab: FollowingLab, pattern: str
) -> None:
    commit = lab.propose(12, {"c.yaml": session("c", GPU)}, pattern)
    lab.once()
    browser = visitor(lab, "admin")
    page = page_of(lab, "review", browser, commit="#12")
    assert "Review of #12" in page and commit[:12] in page and "proposal 12" in page
    assert 'orders/approve"' in page and 'orders/rollback"' not in page
    assert not lab.remote.has_commit(commit)
    assert browser.get("/clusters/here/review", params={"commit": commit}).status_code == 404
    fields = fields_of(page, "approve")
    refused = send(browser, "rollback", **fields, why="x")
    assert refused.status_code == 409
    # Approved before it is merged: carried out once what is followed rests on it.
    assert send(browser, "approve", **fields).status_code == 303
    lab.once()
    assert lab.commit != commit
    git(lab.pair.work, "push", "--quiet", "origin", f"{commit}:main")
    lab.once()
    assert lab.commit == commit
    told = read_directives(lab.loop.workspace.store, "here").approve
    assert told is not None and told.commit == commit


def test_commits_that_would_not_be_followed_are_named(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "allowed").write_text("ada@cluster.example ssh-ed25519 AAAA\n")
    (own / "trust.yaml").write_text("signatures:\n  allowedSigners: allowed\n")
    settings = load_trust_settings(own / "trust.yaml", [tmp_path / "site"])
    assert settings is not None
    lab = FollowingLab(tmp_path / "site", gate=TrustGate(settings))
    commit = lab.push({"c.yaml": session("c", GPU)}, "next")
    lab.propose(1, {"d.yaml": session("d", GPU)})
    lab.once()
    page = page_of(lab, "review", commit="next")
    assert "Would not be followed" in page and f"{commit[:12]}: it is not signed" in page
    assert "Would not be followed" in page_of(lab, "review", commit="#1")
    lab.close()


def test_a_proposal_that_was_pushed_to_is_not_what_was_seen(
    lab: FollowingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.gitops.proposed_heads.INTERVAL", 0.0)
    lab.propose(3, {"c.yaml": session("c", GPU)})
    browser = visitor(lab, "operator")
    fields = fields_of(page_of(lab, "review", browser, commit="#3"), "approve")
    later = lab.propose(3, {"evil.yaml": session("evil", GPU)})
    refused = send(browser, "approve", **fields)
    page = browser.get(refused.headers["location"]).text
    assert "This has moved since you looked" in page and later[:12] in page
    assert read_directives(lab.loop.workspace.store, "here").approve is None


class Forge(ThreadingHTTPServer):
    """Answers every question with what it is told to, and remembers them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: object = []
        self.asked: list[tuple[str, str]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Forge

    def do_GET(self) -> None:
        token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        self.server.asked.append((self.path, token))
        asked = dict(parse_qsl(urlsplit(self.path).query))
        found = self.server.answer if asked.get("page") == "1" else []
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    """For whose answer pages wait, however busy this machine is."""
    monkeypatch.setattr(open_requests, "PATIENCE", PATIENCE)
    server = Forge()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(lab: FollowingLab, forge: Forge, api: str = "/api/v1", token: str = "s3cret") -> None:
    """As if the remote lay on this forge."""
    settings = ProposalSettings(forge=f"http://127.0.0.1:{forge.server_port}{api}", forge_token=token)
    lab.app.state.reviews["here"] = CommitReviews(
        lab.hub.clusters["here"],
        lab.app.state.planning,
        lambda url: settings.find_forge("https://forge.test/team/cluster.git"),
    )


def github(number: int, **more: Any) -> dict[str, Any]:
    known = {"title": f"title {number}", "html_url": f"https://forge.test/{number}"}
    person, head, base = {"login": "ada"}, {"sha": "a" * 40}, {"ref": "main"}
    return {"number": number, "user": person, "head": head, "base": base, **known, **more}


def gitlab(number: int) -> dict[str, Any]:
    return {
        "iid": number, "title": "from a fork", "author": {"username": "bob"}, "sha": "b" * 40,
        "target_branch": "main", "web_url": "https://forge.test/mr",
    }  # fmt: skip


def test_open_pull_requests_are_listed_as_text_with_their_reviews(lab: FollowingLab, forge: Forge) -> None:
    forge.answer = [
        github(12), github(13, title=HOSTILE, user={"login": HOSTILE}, html_url="javascript:alert(1)"),
        github(14, base={"ref": "other"}), github(15, user=None, head=None, title=None), {"number": "x"},
        "nonsense",
    ]  # fmt: skip
    ask(lab, forge)
    page = page_of(lab, "reviews")
    assert 'href="/clusters/here/review?commit=%2312">#12</a>' in page and "title 12" in page
    assert 'href="https://forge.test/12" rel="noreferrer noopener"' in page
    assert "#13" in page and "#15" in page and "#14" not in page
    assert "javascript:" not in page and "<img" not in page and "s3cret" not in page
    (where, token), *_ = forge.asked
    assert (
        where.startswith("/api/v1/repos/team/cluster/pulls?")
        and "state=open" in where
        and token == "token s3cret"
    )
    for _ in range(3):
        page_of(lab, "reviews")
    assert len(forge.asked) == 1, "asked again only after a while"


def test_merge_requests_of_gitlab_are_the_same(lab: FollowingLab, forge: Forge) -> None:
    forge.answer = [gitlab(4)]
    ask(lab, forge, "/api/v4")
    page = page_of(lab, "reviews")
    assert "commit=%234" in page and "from a fork" in page and "bob" in page
    assert forge.asked[0][1] == "s3cret"


def test_a_forge_that_answers_nonsense_is_said_and_the_rest_is_shown(lab: FollowingLab, forge: Forge) -> None:
    forge.answer = {"message": "no list"}
    lab.push({"c.yaml": session("c", GPU)}, "next")
    lab.once()
    ask(lab, forge)
    page = page_of(lab, "reviews")
    assert "it does not answer with a list" in page and "refs%2Fheads%2Fnext" in page
    ask(lab, forge, token="")
    assert "Open pull requests" not in page_of(lab, "reviews")
    unknown = ProposalSettings(forge_token="s3cret").find_forge
    lab.app.state.reviews["here"] = CommitReviews(lab.hub.clusters["here"], lab.app.state.planning, unknown)
    assert "no forge that is known by its name" in page_of(lab, "reviews")


def test_a_forge_that_does_not_answer_holds_no_page_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_requests, "PATIENCE", 0.01)
    let = threading.Event()

    def wait() -> list[Any]:
        let.wait()
        return []

    known = open_requests.OpenRequests(wait)
    assert known.known() == open_requests.KnownRequests()
    let.set()
    known._answered.wait()
    assert known.known().asked


def test_documents_are_compared_and_what_is_long_is_cut(
    lab: FollowingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_diffs, "MOST_DOCUMENTS", 2)
    monkeypatch.setattr(document_diffs, "MOST_LINES", 3)
    many = {f"s{at}.yaml": session(f"s{at}") for at in range(5)}
    lab.push({**many, "a.yaml": session("a", "resources: {cpu: 3, memory: 1GiB, cuda.device: 1}")}, "next")
    lab.once()
    page = page_of(lab, "review", commit="next")
    assert page.count('<article class="diff change') == 2 and "page 1 of 3, 6 documents" in page
    assert "more lines" in page
    last = page_of(lab, "review", commit="next", documents="3")
    assert page != last and "page 3 of 3" in last


def test_many_branches_are_cut_into_pages(lab: FollowingLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews_page, "MOST_BRANCHES", 2)
    for name in ("one", "two", "three"):
        lab.push({"c.yaml": session(name, GPU)}, name)
    lab.once()
    first, second = page_of(lab, "reviews"), page_of(lab, "reviews", page="2")
    assert "page 1 of 2, 3 branches" in first and "page 2 of 2" in second


def test_what_is_hostile_in_values_stays_text(lab: FollowingLab) -> None:
    lab.push({"c.yaml": session("c", GPU), "a.yaml": None}, "next")
    lab.once()
    page = reviews_page.reviews_page(lab.reviews, None)
    shown = render("plans/reviews.html", page=hostile(page), standing=_standing(), powers=_powers())
    assert_harmless(shown)


def _standing() -> Any:
    order = OrderInForce(HOSTILE, "", HOSTILE, HOSTILE)
    return Standing(HOSTILE, order, order, order, (HOSTILE,))


def _powers() -> Any:
    return Powers(orders=True, rollback=True)
