"""What is asked for on pages, at a real Gitea: the branch and the pull request that it becomes, what a fork
proposes, and what Gitea refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bai.web.panel.plans import open_requests
from bai.web.panel.proposals.settings import ProposalSettings
from reconciler.sources.git_command import GitLogin
from tests.bai.web.lab import PATIENCE
from tests.bai.web.panel.proposals.office import Office, Visitor, allowed
from tests.lab.gitea import PASSWORD, USER, Gitea
from tests.providers.forge_stand_in import REFUSALS
from tests.reconciler.gitops.repositories import git
from tests.reconciler.lab import session
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("gitea")
NEW = session("new", "resources: {cpu: 1, memory: 1GiB}")
Settle = Callable[[ProposalSettings], "ForgeOffice"]


class ForgeOffice(Office):
    """Its remote is a repository of Gitea's, `name`."""

    forge: Gitea
    name: str

    def call(self, method: str, path: str, **body: Any) -> Any:
        return self.forge.call(method, f"/repos/{USER}/{self.name}{path}", **body)

    @property
    def head(self) -> str:
        return git(self.pair.work, "ls-remote", "origin", "refs/heads/main").split()[0]

    def branches(self) -> set[str]:
        listed = git(self.pair.work, "ls-remote", "--heads", "origin").splitlines()
        return {each.partition("\trefs/heads/")[2] for each in listed}

    def propose(self, who: Visitor, text: str = NEW, reason: str = "because") -> str:
        """A new session, from its form to what was pushed; gives the page of that."""
        page = who.post("new", text=text, shown="")
        assert page.status_code == 200, page.text
        answer = who.commit(page.text, reason=reason)
        assert answer.status_code == 303, answer.text
        found = who.client.get(answer.headers["location"])
        assert found.status_code == 200, found.text
        return found.text


@pytest.fixture
def settle(
    gitea: Gitea, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settle]:
    made: list[ForgeOffice] = []
    monkeypatch.setattr(open_requests, "PATIENCE", PATIENCE)

    def settle(settings: ProposalSettings) -> ForgeOffice:
        name = re.sub("[^a-z]+", "-", request.node.name)[:60].strip("-")
        push_to = gitea.repository(name, private=False)
        url = f"{gitea.url}/{USER}/{name}.git"
        office = ForgeOffice(tmp_path, settings, url=url, push_to=push_to, login=GitLogin(USER, PASSWORD))
        office.forge, office.name = gitea, name
        made.append(office)
        # A repository that is new takes nothing in until it has seen that it was pushed to.
        until(lambda: not office.call("GET", "")["empty"], "it knows that it is not empty")
        return office

    yield settle
    for each in made:
        each.close()


def by_requests(gitea: Gitea, token: str = "") -> ProposalSettings:
    return allowed("branch", forge=f"{gitea.url}/api/v1", forge_token=token or gitea.token)


def test_a_form_becomes_a_pull_request_that_is_reviewed_merged_and_carried_out(
    gitea: Gitea, settle: Settle
) -> None:
    office = settle(by_requests(gitea))
    person, before = office.person("operator-of-p"), office.head
    page = office.propose(person, reason="for <the> paper")
    assert f'href="{gitea.url}/{USER}/{office.name}/pulls/1"' in page and "not followed yet" in page
    assert office.head == before

    told = office.call("GET", "/pulls/1")
    branch = "bai/operator-of-p/run-session-p-new"
    assert (told["head"]["ref"], told["base"]["ref"]) == (branch, "main")
    assert told["title"] == "Run Session/p/new"
    assert told["body"] == (
        "Reason: for <the> paper\n\nProposed by operator-of-p on the page of cluster here."
    )
    commit = told["head"]["sha"]
    written = office.call("GET", f"/git/commits/{commit}")["commit"]
    author, committer = (
        {key: written[who][key] for key in ("name", "email")} for who in ("author", "committer")
    )
    assert author == {"name": "operator-of-p", "email": "operator-of-p@here"}
    assert committer == {"name": "bai", "email": "bai@lab.example"}
    assert written["message"] == "Run Session/p/new\n\nReason: for <the> paper\n"

    admin = office.person("admin")
    listed = admin.get("reviews").text
    assert 'review?commit=%231">#1</a>' in listed and "Run Session/p/new" in listed and commit[:12] in listed
    review = admin.get("review", commit="#1")
    assert review.status_code in (200, 303)
    review = admin.client.get("/clusters/here/review", params={"commit": "#1"}, follow_redirects=True)
    assert "Review of #1" in review.text and "Session/p/new" in review.text and commit[:12] in review.text

    gitea.until("POST", f"/repos/{USER}/{office.name}/pulls/1/merge", Do="merge")
    until(lambda: office.once() and office.phase("Session/p/new") == "RUNNING", lambda: str(office.lines))
    assert office.loop.workspace.commit == office.head != commit
    assert "carried out" in person.get(f"changes/{commit}").text


def test_a_protected_branch_is_said_on_the_page_and_the_draft_is_kept(gitea: Gitea, settle: Settle) -> None:
    office = settle(allowed("commit"))
    office.call("POST", "/branch_protections", rule_name="main", enable_push=False)
    person, before = office.person("operator"), office.head
    page = person.post("new", text=NEW, shown="")
    answer = person.commit(page.text, reason="for the paper")
    assert answer.status_code == 409 and "Nothing was written" in answer.text
    assert "protected branch" in answer.text and "--proposals branch" in answer.text
    assert 'value="for the paper"' in answer.text and "name: new" in answer.text
    assert office.head == before and office.branches() == {"main"}


def test_what_a_fork_proposes_is_listed_and_reviewed(gitea: Gitea, settle: Settle) -> None:
    office = settle(by_requests(gitea))
    fork = _fork(gitea, office)
    git(office.pair.work, "remote", "add", "fork", fork)
    commit = office.pair.commit({"forked.yaml": session("forked", "resources: {cpu: 1}")}, "From a fork")
    git(office.pair.work, "push", "--quiet", "fork", "HEAD:idea")
    at = f"/repos/{USER}/{office.name}/pulls?sudo=bob"
    gitea.until("POST", at, head="bob:idea", base="main", title="<b>An idea")
    admin = office.person("admin")
    listed = admin.get("reviews").text
    assert "&lt;b&gt;An idea" in listed and "<td>bob</td>" in listed and commit[:12] in listed
    review = admin.client.get("/clusters/here/review", params={"commit": "#1"}, follow_redirects=True)
    assert review.status_code == 200 and "Session/p/forked" in review.text and "From a fork" in review.text
    assert not office.remote.has_commit(commit)


def _fork(gitea: Gitea, office: ForgeOffice) -> str:
    """Bob's; gives its address with his password in it."""
    known = {each["login"] for each in gitea.call("GET", "/admin/users")}
    if "bob" not in known:
        gitea.call(
            "POST", "/admin/users", username="bob", email="bob@cluster.example", password=PASSWORD,
            must_change_password=False,
        )  # fmt: skip
    office.call("POST", "/forks?sudo=bob", name=office.name)
    return f"{gitea.url.replace('://', f'://bob:{PASSWORD}@')}/bob/{office.name}.git"


@pytest.mark.parametrize(("scopes", "said"), [("", "401"), ("read:repository", "403")])
def test_a_token_that_may_not_leaves_the_branch_and_says_why(
    gitea: Gitea, settle: Settle, scopes: str, said: str
) -> None:
    token = gitea.new_token(scopes) if scopes else "0" * 40
    office = settle(by_requests(gitea, token))
    person = office.person("operator")
    page = office.propose(person)
    assert "no pull request could be opened" in page and said in page and token not in page
    assert office.branches() == {"main", "bai/operator/run-session-p-new"}
    assert office.call("GET", "/pulls") == []
    assert office.once(), office.lines
    listed = office.person("admin").get("reviews")
    assert listed.status_code == 200 and token not in listed.text
    assert ("the token is missing, wrong or has expired" in listed.text) is not bool(scopes)
    assert "bai/operator/run-session-p-new" in listed.text


def test_the_stand_in_of_other_tests_answers_as_it_does(gitea: Gitea, settle: Settle) -> None:
    """What bai reads of an answer, and what it is told where it may not."""
    office = settle(by_requests(gitea))
    office.propose(office.person("operator"))
    (listed,) = office.call("GET", "/pulls?state=open&limit=50&page=1")
    assert (listed["number"], listed["user"]["login"], listed["base"]["ref"]) == (1, USER, "main")
    assert re.fullmatch("[0-9a-f]{40}", listed["head"]["sha"])
    assert listed["html_url"] == f"{gitea.url}/{USER}/{office.name}/pulls/1"
    assert office.call("GET", "/pulls?state=open&limit=50&page=2") == []
    assert (listed["head"]["ref"], listed["head"]["repo"]["full_name"]) == (
        "bai/operator/run-session-p-new", f"{USER}/{office.name}",
    )  # fmt: skip
    forge = office.settings.find_forge(office.url)
    assert forge is not None
    assert forge.create_request(listed["head"]["ref"], "main", "x", "") == listed["html_url"]
    again = {"head": listed["head"]["ref"], "base": "main", "title": "x", "body": ""}
    answers = {}
    for token, repository in (
        (gitea.token, office.name), (gitea.token, "nothing"), ("0" * 40, office.name),
        (gitea.new_token("read:repository"), office.name),
    ):  # fmt: skip
        answer = requests.post(
            f"{gitea.url}/api/v1/repos/{USER}/{repository}/pulls", json=again, timeout=60,
            headers={"Authorization": f"token {token}"},
        )  # fmt: skip
        answers[answer.status_code] = answer.json()["message"]
    assert {status: re.sub(r"\d+", "1", said) for status, said in answers.items()} == REFUSALS


def test_a_password_that_counts_no_more_loses_no_draft(gitea: Gitea, settle: Settle) -> None:
    office = settle(by_requests(gitea))
    person = office.person("operator")
    page = person.post("new", text=NEW, shown="").text
    office.remote.login = GitLogin(USER, "another-word-2")
    answer = person.commit(page, reason="for the paper")
    assert answer.status_code == 409 and "Nothing was written" in answer.text
    assert "Failed to authenticate user" in answer.text and "another-word-2" not in answer.text
    assert 'value="for the paper"' in answer.text and "name: new" in answer.text
    office.remote.login = GitLogin(USER, PASSWORD)
    assert person.commit(answer.text).status_code == 303
    assert office.branches() == {"main", "bai/operator/run-session-p-new"}
