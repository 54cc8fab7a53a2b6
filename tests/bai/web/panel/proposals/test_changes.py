"""Changes on pages become commits in a person's name: who may, what is written, and what holds attacks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.routes.directives import give_order
from reconciler.trust.gate import TrustGate
from tests.bai.web.panel.proposals.office import FILES, SAME, Office, allowed, hidden
from tests.providers.forge_stand_in import REFUSALS, Forge, forge_server
from tests.reconciler.lab import session


class Signed(TrustGate):
    """Commits are signed, all of them."""

    def __init__(self) -> None:
        pass

    def check(self, folder: Path, tip: str, base: str = "") -> None:
        pass


NEW = session("new", "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """One that tests leave as it is."""
    made = Office(tmp_path_factory.mktemp("office"))
    yield made
    assert made.branches() == {"main"} and made.git("rev-list", "--count", "main") == "1"
    made.close()


@pytest.fixture(scope="module")
def office_of_forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Office, Forge]]:
    """Whose changes are branches that a forge is asked to take."""
    folder = tmp_path_factory.mktemp("forged")
    url, settings = "https://forge.example/o/n.git", folder / "gitconfig"
    settings.write_text(f'[url "{folder / "forge.git"}"]\n  insteadOf = {url}\n')
    with pytest.MonkeyPatch.context() as patch, forge_server() as forge:
        patch.setenv("GIT_CONFIG_GLOBAL", str(settings))
        told = allowed("branch", forge=f"{forge.url}/api/v1", forge_token="t0ken")
        office = Office(folder, told, url=url)
        yield office, forge
        office.close()


@pytest.fixture
def forged(office_of_forge: tuple[Office, Forge]) -> Iterator[tuple[Office, Forge]]:
    """Nobody has changed anything there."""
    office, forge = office_of_forge
    yield office, forge
    forge.asked.clear()
    for branch in office.branches() - {"main"}:
        office.git("update-ref", "-d", f"refs/heads/{branch}")


def test_a_session_is_written_looked_at_committed_and_runs(office: Office) -> None:
    ada = office.person("operator-of-p")
    page = ada.post("new", text=NEW, shown="").text
    assert "It would start on" in page and "sessions/p/new.yaml" in page and "Commit it" in page
    answer = ada.commit(page, reason="for the paper")
    assert answer.status_code == 303
    commit = answer.headers["location"].rpartition("/")[2]
    assert office.head == commit
    (entry,) = office.loop.workspace.store.audit("here", commit=commit)
    assert entry.at == office.world.clock.now(), "by the clock of what it is about"
    shown = office.git("show", "--no-patch", "--format=%an|%ae|%cn|%B", commit)
    assert shown == "operator-of-p|operator-of-p@here|bai|Run Session/p/new\n\nReason: for the paper"
    page = ada.get(f"changes/{commit}").text
    assert "not followed yet" in page and "on its way" in page
    assert office.once(), office.lines
    page = ada.get(f"changes/{commit}").text
    assert "carried out" in page and "its session</a> is" in page
    assert office.phase("Session/p/new") in ("CREATING", "RUNNING")
    audit = ada.get("audit", resource="Session/p/new").text
    assert "propose" in audit and commit[:12] in audit and "operator-of-p" in audit


def test_where_a_commit_has_to_be_approved_its_page_says_so(tmp_path: Path) -> None:
    office = Office(tmp_path, approval=True)
    ada, admin = office.person("operator-of-p"), office.person("admin")
    commit = ada.commit(ada.post("new", text=NEW, shown="").text).headers["location"].rpartition("/")[2]
    assert "not followed yet" in ada.get(f"changes/{commit}").text
    assert office.once(), office.lines
    ours, theirs = (who.get(f"changes/{commit}").text for who in (ada, admin))
    for page in (ours, theirs):
        assert "waits for approval" in page and "once somebody has approved of it" in page
        assert "not followed yet" not in page and "carried out<" not in page
    # To where it is approved, for who may look there.
    assert '(<a href="/clusters/here/reviews">' in theirs and '(<a href="/clusters/here/reviews">' not in ours
    give_order(office.hub.clusters["here"], "admin", "approve", "", commit)
    assert office.once(), office.lines
    page = ada.get(f"changes/{commit}").text
    assert "carried out" in page and "waits for approval" not in page
    office.close()


def test_a_session_ends_and_gets_another_priority(office: Office) -> None:
    ada = office.person("operator")
    page = ada.look(action="priority", target="Session/p/a", value="7")
    assert "priority: 7" in page and "no running session is touched" in page
    ada.change(action="priority", target="Session/p/a", value="7")
    assert "priority: 7" in office.git("show", "main:a.yaml")
    assert office.once(), office.lines
    page = ada.look(action="end", target="Session/p/a")
    assert "1 running session stopped" in page
    ada.change(action="end", target="Session/p/a")
    assert "a.yaml" not in office.git("ls-tree", "--name-only", "main").split()
    assert office.once() and office.once()
    assert office.phase("Session/p/a") in ("", "TERMINATED")


@pytest.mark.parametrize("state", ["cordoned", "drained"])
def test_a_node_is_cordoned(office: Office, state: str) -> None:
    ada = office.person("operator")
    assert f"value={state}" in ada.get("nodes/n1").text
    commit = ada.change(action="node", target="Node/n1", value=state)
    assert office.git("diff", "--stat", f"{commit}~1", commit).count("|") == 1
    assert f"state: {state}" in office.git("show", "main:nodes.yaml")
    assert office.once(), office.lines
    assert state in ada.get("nodes/n1").text
    ada.change(action="node", target="Node/n1", value="active")
    assert state not in office.git("show", "main:nodes.yaml")


def test_a_quota_is_changed_with_its_comments(office: Office) -> None:
    ada = office.person("operator")
    assert "Change" in ada.get("resources/Quota/of-p").text
    editor = ada.look(action="edit", target="Quota/of-p")
    text = hidden(editor)["text"]
    assert "# agreed in May" in text
    page = ada.post(
        "change", action="edit", target="Quota/of-p", text=text.replace("device: 3", "device: 4")
    ).text
    assert ada.commit(page).status_code == 303
    assert "cuda.device: 4}  # agreed in May" in office.git("show", "main:quota.yaml")


def test_a_branch_leaves_what_is_followed(tmp_path: Path) -> None:
    office = Office(tmp_path, allowed("branch"))
    ada, before = office.person("operator"), office.head
    commit = ada.change(action="node", target="Node/n1", value="cordoned")
    assert office.head == before
    assert office.branches() == {"main", "bai/operator/cordon-node-n1"}
    page = ada.get(f"changes/{commit}").text
    assert "bai/operator/cordon-node-n1" in page and "yours to open" in page
    ours = office.person("ours")
    for name in (commit, "0" * 40, commit[:12], "main", "%2e%2e"):
        assert ours.get(f"changes/{name}").status_code == 404, name
    office.git("update-ref", "refs/heads/main", commit)
    assert office.once()
    assert "carried out" in ada.get(f"changes/{commit}").text
    office.close()


def test_where_nothing_is_written_the_yaml_is_to_copy(tmp_path: Path) -> None:
    office = Office(tmp_path, allowed("off"))
    ada = office.person("admin")
    page = ada.look(action="node", target="Node/n1", value="cordoned")
    assert "state: cordoned" in page and "--proposals" in page and 'value="commit"' not in page
    answer = ada.post(
        "change", action="node", target="Node/n1", value="cordoned", base=office.head, do="commit"
    )
    assert answer.status_code == 409 and "Nothing was written" in answer.text
    assert office.branches() == {"main"} and office.git("rev-list", "--count", "main") == "1"
    office.close()


@pytest.mark.parametrize("mode", ["branch", "commit"])
def test_a_tag_takes_no_change_and_the_page_says_so(tmp_path: Path, mode: str) -> None:
    office = Office(tmp_path, allowed(mode), ref="v1")
    ada = office.person("admin")
    page = ada.look(action="node", target="Node/n1", value="cordoned")
    assert "What is followed, v1 (--ref), is no branch" in page and "state: cordoned" in page
    assert 'value="commit"' not in page
    asked = {"action": "node", "target": "Node/n1", "value": "cordoned"}
    answer = ada.post("change", **asked, base=office.head, do="commit")
    assert answer.status_code == 409 and "is no branch" in answer.text
    assert office.branches() == {"main"} and office.git("rev-list", "--count", "main") == "1"
    office.close()


@pytest.mark.parametrize(
    ("status", "said"),
    [(201, "https://forge.example/o/n/pulls/3"), *((status, said[:50]) for status, said in REFUSALS.items())],
)
def test_a_branch_gets_a_pull_request_where_the_forge_takes_one(
    forged: tuple[Office, Forge], status: int, said: str
) -> None:
    office, forge = forged
    forge.answer = status, {"html_url": "https://forge.example/o/n/pulls/3"}
    if status in REFUSALS:
        forge.answer = status, {"message": REFUSALS[status]}
    ada = office.person("operator")
    page = ada.look(action="node", target="Node/n1", value="cordoned")
    # By its reason another commit than the one before, also within a second.
    commit = ada.commit(page, reason=f"because of {status}").headers["location"].rpartition("/")[2]
    page = ada.get(f"changes/{commit}").text
    assert said in page and "t0ken" not in page
    ((path, _, body),) = forge.asked
    assert path == "/api/v1/repos/o/n/pulls" and body["base"] == "main"
    assert body["head"] == "bai/operator/cordon-node-n1" and body["title"] == "Cordon Node/n1"
    assert body["body"].startswith(f"Reason: because of {status}") and "operator" in body["body"]


def test_where_commits_must_be_signed_it_goes_to_a_branch(tmp_path: Path) -> None:
    office = Office(tmp_path, allowed("commit"), gate=Signed())
    ada, before = office.person("operator"), office.head
    assert "must be signed" in ada.look(action="node", target="Node/n1", value="cordoned")
    ada.change(action="node", target="Node/n1", value="cordoned")
    assert office.head == before and "bai/operator/cordon-node-n1" in office.branches()
    office.close()


# Who may


@pytest.mark.parametrize(
    ("who", "change", "may"),
    [
        ("viewer", {"action": "end", "target": "Session/p/a"}, False),
        ("ours", {"action": "end", "target": "Session/p/a"}, False),
        ("operator-of-p", {"action": "end", "target": "Session/p/a"}, True),
        ("operator-of-p", {"action": "node", "target": "Node/n1", "value": "cordoned"}, None),
        ("operator-of-p", {"action": "end", "target": "Session/q/secret"}, None),
        ("operator-of-p", {"action": "end", "target": "Session/p/shared"}, None),
        ("viewer", {"action": "node", "target": "Node/n1", "value": "cordoned"}, False),
        ("operator", {"action": "node", "target": "Node/n1", "value": "cordoned"}, True),
        ("operator", {"action": "edit", "target": "Project/p", "text": "x"}, None),
    ],
)
def test_roles_are_those_of_the_project(
    still: Office, who: str, change: dict[str, str], may: bool | None
) -> None:
    """None: not even the page of the change is shown with a way to make it."""
    person = still.person(who)
    answer = person.post("change", **change)
    assert ('name="do" value="commit"' in answer.text) is (may is True)
    if may is not True:
        sent = person.post("change", **change, base=still.head, do="commit")
        assert sent.status_code in ((403,) if may is False else (403, 404, 409)), sent.status_code
        assert "secret" not in sent.text or "secret" in str(change)


def test_a_document_beside_others_is_left_to_who_may_change_all(still: Office) -> None:
    person = still.person("operator-of-p")
    for change in (
        {"action": "end", "target": "Session/p/shared"},
        {"action": "edit", "target": "Session/p/shared"},
    ):
        answer = person.post("change", **change, text=session("shared", "priority: 3"))
        assert "secret" not in answer.text and 'value="commit"' not in answer.text


def test_nothing_of_another_project_is_told(still: Office) -> None:
    person, said = still.person("operator-of-p"), set()
    for name in ("secret", "nothere"):
        for project in ("q", "nowhere"):
            text = session(name, "").replace("project: p", f"project: {project}")
            answer = person.post("new", text=text, shown="")
            assert answer.status_code == 422
            said |= set(re.findall("<li>(.*is not yours.*)</li>", answer.text))
    assert said == {"its project is not yours <small>metadata.project names one that is</small>"}
    assert "secret" not in person.get("new").text
    for page in ("new?copy=Session/q/NAME", "change?action=end&target=Session/q/NAME"):
        texts = [
            person.get(page.replace("NAME", name)).text.replace(name, "X") for name in ("secret", "nothere")
        ]
        assert texts[0] == texts[1]


def test_strangers_and_other_sites_change_nothing(still: Office) -> None:
    ada = still.person("operator")
    fields = {"action": "node", "target": "Node/n1", "value": "cordoned", "base": still.head, "do": "commit"}
    for page in ("change", "new", "new/preview"):
        where = f"/clusters/here/{page}"
        assert ada.client.post(where, data=fields, headers=SAME).status_code == 403
        assert ada.client.post(where, data={**fields, "token": "0" * 64}, headers=SAME).status_code == 403
        good = {**fields, "token": ada.token}
        assert ada.client.post(where, data=good, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert ada.client.post(where, data=good).status_code == 403
        nobody = still.person("unknown")
        assert nobody.client.post(where, data=good, headers=SAME).status_code in (303, 403)
    assert ada.client.get("/clusters/here/change", params=fields).status_code == 200  # looks, and no more


# What comes in between


def test_a_file_that_changed_meanwhile_is_not_written_over(office: Office) -> None:
    ada = office.person("operator")
    page = ada.look(action="priority", target="Session/p/a", value="7")
    theirs = office.push({"a.yaml": session("a", "priority: 3")})
    answer = ada.commit(page, reason="mine")
    assert (
        answer.status_code == 409
        and "has changed since" in answer.text
        and "Nothing was written" in answer.text
    )
    assert office.head == theirs and 'value="mine"' in answer.text
    assert ada.commit(answer.text).status_code == 303  # What the page shows then is what is newest.
    assert "priority: 7" in office.git("show", "main:a.yaml")


def test_what_others_changed_elsewhere_stays(office: Office) -> None:
    ada = office.person("operator")
    page = ada.look(action="priority", target="Session/p/a", value="7")
    office.push({"quota.yaml": None})
    assert ada.commit(page).status_code == 303
    assert "quota.yaml" not in office.git("ls-tree", "--name-only", "main").split()


def test_a_change_that_breaks_what_others_have_pushed_is_refused_with_its_places(office: Office) -> None:
    ada = office.person("operator")
    page = ada.post("new", text=NEW.replace("project: p", "project: q"), shown="").text
    files = {"base.yaml": FILES["base.yaml"].replace("name: q}", "name: r}"), "both.yaml": None}
    theirs = office.push(files)
    answer = ada.commit(page)
    assert answer.status_code == 409 and "sessions/q/new.yaml:" in answer.text
    assert office.head == theirs


def test_a_branch_that_is_protected_says_so_and_nothing_is_lost(office: Office) -> None:
    ada = office.person("operator-of-p")
    hook = office.pair.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'main is <b>protected</b>' >&2\nexit 1\n")
    hook.chmod(0o755)
    answer = ada.commit(ada.post("new", text=NEW, shown="").text, reason="for the paper")
    assert answer.status_code == 409 and "main is &lt;b&gt;protected&lt;/b&gt;" in answer.text
    assert html.escape("resources: {cpu: 1, memory: 1GiB, cuda.device: 1}") in answer.text
    assert 'value="for the paper"' in answer.text and office.branches() == {"main"}


def test_a_base_that_nobody_has_is_refused(still: Office) -> None:
    ada = still.person("operator")
    fields = {"action": "node", "target": "Node/n1", "value": "cordoned", "do": "commit"}
    for base in ("", "0" * 40, "main", "--help", f"{still.head}^", "HEAD"):
        answer = ada.post("change", **fields, base=base)
        assert answer.status_code == 409 and "begin again" in answer.text


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "end", "target": "Node/n1"},
        {"action": "node", "target": "Session/p/a", "value": "cordoned"},
        {"action": "node", "target": "Node/../n1", "value": "cordoned"},
        {"action": "node", "target": "Node/n1", "value": "active\nfoo: bar"},
        {"action": "node", "target": "Node/n1", "value": "{}"},
        {"action": "priority", "target": "Session/p/a", "value": "1}, tty: true"},
        {"action": "priority", "target": "Session/p/a", "value": "-1"},
        {"action": "priority", "target": "Session/p/a", "value": "1001"},
        {"action": "shell", "target": "Session/p/a"},
        {"action": "edit", "target": "Session/p/a", "text": NEW},
        {"action": "edit", "target": "../../etc/passwd", "text": "x: 1"},
    ],
)
def test_what_is_no_such_change_is_refused(still: Office, fields: dict[str, str]) -> None:
    answer = still.person("admin").post("change", **fields, base=still.head, do="commit")
    assert answer.status_code in (404, 409), answer.text


def test_hostile_texts_stay_texts(still: Office) -> None:
    ada = still.person("operator")
    evil = "</textarea><script>alert(1)</script><img src=x onerror=alert(1)>"
    for page in (
        ada.post("new", text=evil, shown="").text,
        ada.post("new/preview", text=evil, shown="", name=evil).text,
        ada.post("new/preview", text=NEW, shown=NEW, image=evil, command=evil, env=f"A={evil}").text,
        ada.get("new", yaml=evil).text,
        ada.post("change", action="edit", target="Quota/of-p", text=evil).text,
        ada.commit(ada.look(action="end", target="Session/p/a"), reason=evil, base="x").text,
    ):
        assert "<script>alert" not in page and "<img" not in page
