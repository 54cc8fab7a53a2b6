"""Every action of the pages, over native processes and over Docker: from the form of a session to its end and
back, from a pull request to what it runs, a node that takes nothing new; and what is refused to whom.

`bai serve` follows a remote, commits what is asked for on its pages, and waits for approval.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Locator, Page, expect

from tests.bai.web.browser.followed_house import Followed, clean_visit, served
from tests.bai.web.browser.house import OUTSIDER, PROVIDERS, node_of
from tests.bai.web.browser.site import Visit
from tests.bai.web.browser.terminal_screen import note, rows, shows
from tests.lab.browser import Chromium
from tests.lab.gitea import PASSWORD, USER, Gitea
from tests.reconciler.gitops.repositories import Pair, git
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]
MADE = "sh -c 'head -c 100000 /dev/urandom > made; mv made made.bin; exec sleep inf'"
"""The file is whole where it is there."""
SAME = {"Sec-Fetch-Site": "same-origin"}
BUTTONS = re.compile("Approve|Roll back|Suspend|Resume|Look now|Commit|Push|Open|Send")
WITH_BUTTONS = (
    "",
    "nodes/here1",
    "queue",
    "sessions/demo/talks",
    "plan",
    "reviews",
    "review?commit=main",
    "history",
    "change?action=end&target=Session/demo/talks",
    "change?action=priority&target=Session/demo/talks&value=7",
    "change?action=node&target=Node/here1&value=cordoned",
)
"""Pages that have some for who may."""


@pytest.fixture(scope="module", params=PROVIDERS)
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: Chromium
) -> Iterator[Followed]:
    """What is asked for is committed to what is followed, a bare repository."""
    pair, node = Pair(tmp_path_factory.mktemp(request.param)), node_of(request)
    with served(request.param, node, pair, str(pair.bare), chromium, "--proposals", "commit") as made:
        yield made


@pytest.fixture
def forge_house(gitea: Gitea, tmp_path: Path, chromium: Chromium) -> Iterator[Followed]:
    """What is asked for is proposed at a real Gitea."""
    pair, push_to = Pair(tmp_path), gitea.repository("walked")
    git(pair.work, "remote", "set-url", "origin", push_to)
    node = {"address": "localhost", "resourceGroup": "all"}
    options = ("--proposals", "branch", "--forge", f"{gitea.url}/api/v1")
    login = {"BAI_GIT_USER": USER, "BAI_GIT_PASSWORD": PASSWORD, "BAI_FORGE_TOKEN": gitea.token}
    url = f"{gitea.url}/{USER}/walked.git"
    with served("process", node, pair, url, chromium, *options, **login) as made:
        yield made


@pytest.fixture
def operator(house: Followed) -> Iterator[Visit]:
    with clean_visit(house, "operator") as visit:
        yield visit


@pytest.fixture
def admin(house: Followed) -> Iterator[Visit]:
    with clean_visit(house, "admin") as visit:
        yield visit


def nav(page: Page, name: str) -> None:
    page.locator(".nav").get_by_role("link", name=name, exact=True).click()


def commit_it(visit: Visit, title: str, why: str) -> None:
    """The change that is shown; ends on the page of what was made, where it waits for approval."""
    push(visit, title, why, "Commit to what is followed")
    expect(visit.page.get_by_text("once somebody has approved of it")).to_be_visible()


def push(visit: Visit, title: str, why: str, button: str) -> None:
    page = visit.page
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name=button).click()
    page.wait_for_url("**/changes/*")
    visit.waits_for_news()


def order(page: Page, name: str, why: str) -> None:
    form = page.locator(f'form[action$="/orders/{name}"]')
    form.get_by_role("textbox").fill(why)
    form.get_by_role("button").click()


def approve(admin: Visit, title: str, why: str) -> None:
    """What is not in force yet of what is followed."""
    page = admin.page
    nav(page, "Reviews")
    expect(page.get_by_role("row", name=title)).to_be_visible()
    page.get_by_role("link", name="Review", exact=False).filter(
        has_text=re.compile("Review [0-9a-f]{12}")
    ).click()
    expect(page.get_by_role("row", name=title)).to_be_visible()
    order(page, "approve", why)
    page.wait_for_url("**/reviews")
    expect(page.locator(".standing")).to_contain_text(why)


def phase(visit: Visit, session: str, wanted: str) -> None:
    """Opens its page, and stays until it says so."""
    visit.in_cluster(f"sessions/demo/{session}")
    expect(visit.page.locator(".page-head")).to_contain_text(wanted)


def digest_in_terminal(visit: Visit, file: str) -> str:
    """What the session's own program says of a file where it works."""
    page = visit.page
    page.get_by_role("link", name="Terminal").click()
    page.get_by_role("button", name="Open", exact=True).click()
    expect(note(page)).to_have_text("Connected.")
    page.keyboard.type(f"until [ -e {file} ]; do sleep 0.1; done; sha256sum {file}; echo fin''ished\n")
    shows(page, "finished")
    found = re.search(rf"([0-9a-f]{{64}})  {file}", rows(page))
    assert found, rows(page)
    page.get_by_role("button", name="Close").click()
    expect(note(page)).to_have_text("Closed.")
    page.locator("h1").get_by_role("link").click()
    return found[1]


def test_a_session_from_the_form_to_its_end_and_back(
    house: Followed, operator: Visit, admin: Visit, tmp_path: Path
) -> None:
    page = operator.page
    expect(page.get_by_role("heading", name="Cores and GPUs")).to_be_visible()
    nav(page, "Queue")
    page.get_by_role("link", name="demo/waits", exact=True).first.click()
    expect(page.locator(".reasons li").first).to_contain_text("needs 4096 cores")
    _write_session(house, page)
    commit_it(operator, "Run Session/demo/walks", "for the walk")
    told = house.newest("show", "--no-patch", "--format=%an <%ae> %cn%n%B", "origin/main")
    assert told.startswith("operator <operator@here> bai\nRun Session/demo/walks\n\nReason: for the walk")
    approve(admin, "Run Session/demo/walks", "it is small")
    expect(page.get_by_text("carried out")).to_be_visible()
    page.get_by_role("link", name="its session").click()
    expect(page.locator(".page-head")).to_contain_text("RUNNING")
    _use_its_files(operator, tmp_path)

    page.get_by_role("link", name="change", exact=True).click()
    page.get_by_label("Priority, 0 to 1000").fill("7")
    page.get_by_role("button", name="Look at the change").click()
    commit_it(operator, "Set the priority of Session/demo/walks to 7", "it hurries")
    approve(admin, "Set the priority of Session/demo/walks to 7", "let it")
    expect(page.get_by_text("carried out")).to_be_visible()
    phase(operator, "walks", "RUNNING")
    expect(page.locator(".overview")).to_contain_text("7 change")
    page.get_by_role("link", name="End", exact=True).click()
    expect(page.locator(".summary")).to_contain_text("1 running session stopped")
    commit_it(operator, "End Session/demo/walks", "seen enough")
    approve(admin, "End Session/demo/walks", "so be it")
    expect(page.get_by_text("carried out")).to_be_visible()
    house.server.until(lambda: "RUNNING" not in _state(house, "walks"), "it has ended")

    _roll_back(house, operator, admin)


def _write_session(house: Followed, page: Page) -> None:
    page.get_by_role("link", name="New session").click()
    page.get_by_label("Project").select_option("demo")
    page.get_by_label("Name").fill("walks")
    page.get_by_label("Type").select_option("interactive")
    page.get_by_label("Image").fill(house.image)
    page.get_by_label("Command").fill(MADE)
    page.get_by_label("Cores").fill("100m")
    page.get_by_label("Memory").fill("64MiB")
    expect(page.get_by_label("As YAML")).to_have_value(re.compile("memory: 64MiB"))
    expect(page.locator("#preview")).to_contain_text("It would start on here1")
    page.get_by_role("button", name="Look at the change").click()


def _use_its_files(operator: Visit, folder: Path) -> None:
    page, sent = operator.page, folder / "sent.bin"
    made = digest_in_terminal(operator, "made.bin")
    page.get_by_role("link", name="Files").click()
    with page.expect_download() as begun:
        page.get_by_role("link", name="Download made.bin").click()
    assert hashlib.sha256(Path(begun.value.path()).read_bytes()).hexdigest() == made
    sent.write_bytes(bytes(range(256)) * 4000)
    page.get_by_label("Files to send here").set_input_files(sent)
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("link", name="Download sent.bin").wait_for()
    page.locator("h1").get_by_role("link").click()
    assert digest_in_terminal(operator, "sent.bin") == hashlib.sha256(sent.read_bytes()).hexdigest()


def _roll_back(house: Followed, operator: Visit, admin: Visit) -> None:
    """To when it ran, and on again."""
    page = admin.page
    nav(page, "History")
    row = page.locator("tbody tr").filter(has_text="Set the priority of Session/demo/walks to 7")
    row.locator("code").first.click()
    order(page, "rollback", "it was needed after all")
    page.wait_for_url("**/plan")
    expect(page.locator(".standing")).to_contain_text("it was needed after all")
    nav(operator.page, "Sessions")  # Its page is there once it is.
    expect(operator.page.get_by_role("row", name="demo/walks")).to_contain_text("RUNNING")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    house.server.until(lambda: "RUNNING" not in _state(house, "walks"), "it has ended again")
    operator.in_cluster("audit")
    expect(operator.page.locator("main")).to_contain_text("it was needed after all")


def _state(house: Followed, session: str) -> str:
    return house.server.states().get(f"Session/demo/{session}", "")


def test_a_pull_request_is_approved_merged_and_carried_out(house: Followed, admin: Visit) -> None:
    commit = house.commit({"proposed.yaml": house.session("proposed")}, "Run one that a fork proposes")
    house.pair.push(branch="refs/pull/7/head")
    page = admin.page
    nav(page, "Reviews")
    page.get_by_label("Commit, branch, tag or #12").fill("#7")
    page.get_by_role("button", name="What it would change").click()
    expect(page.locator("h1")).to_have_text("Review of #7")
    expect(page.get_by_role("row", name="Run one that a fork proposes")).to_be_visible()
    expect(page.locator('form[action$="/orders/rollback"]')).to_have_count(0)
    order(page, "approve", "a good idea")
    page.wait_for_url("**/reviews")
    expect(page.locator(".standing")).to_contain_text("a good idea")
    nav(page, "Sessions")
    assert _state(house, "proposed") == ""
    house.pair.push()
    assert house.head == commit
    expect(page.get_by_role("row", name="demo/proposed")).to_contain_text("RUNNING")
    assert house.server.ask("")["commit"] == commit


def is_listed(page: Page, row: Locator) -> bool:
    """Else the page is opened anew: the forge took longer than it waits."""
    if row.count():
        return True
    page.reload()
    return False


def test_what_is_asked_for_is_a_pull_request_of_the_forge(forge_house: Followed, gitea: Gitea) -> None:
    with clean_visit(forge_house, "operator") as operator, clean_visit(forge_house, "admin") as admin:
        page, overview = operator.page, admin.page
        _write_session(forge_house, page)
        push(operator, "Run Session/demo/walks", "for the walk", "Push a branch")
        expect(page.get_by_text("not followed yet")).to_be_visible()
        there = f"{gitea.url}/{USER}/walked/pulls/1"
        expect(page.get_by_role("link", name=there)).to_have_attribute("href", there)
        expect(page.locator(".overview")).to_contain_text("bai/operator/run-session-demo-walks")

        nav(overview, "Reviews")
        row = overview.get_by_role("row", name="#1")
        until(lambda: is_listed(overview, row), "the forge has told of it")
        expect(row).to_contain_text("Run Session/demo/walks")
        expect(row.get_by_role("link", name="open")).to_have_attribute("href", there)
        row.get_by_role("link", name="#1").click()
        expect(overview.locator("h1")).to_have_text("Review of #1")
        order(overview, "approve", "it is small")
        overview.wait_for_url("**/reviews")
        expect(overview.locator(".standing")).to_contain_text("it is small")
        gitea.until("POST", f"/repos/{USER}/walked/pulls/1/merge", Do="merge")
        expect(page.get_by_text("carried out")).to_be_visible()
        page.get_by_role("link", name="its session").click()
        expect(page.locator(".page-head")).to_contain_text("RUNNING")


def test_a_node_is_cordoned_and_takes_sessions_again(house: Followed, operator: Visit, admin: Visit) -> None:
    page = operator.page
    for word, back in (("Cordon", "Uncordon"), ("Uncordon", "Cordon")):
        nav(page, "Nodes")
        page.locator("main").get_by_role("link", name="here1", exact=True).first.click()
        page.get_by_role("link", name=word, exact=True).click()
        commit_it(operator, f"{word} Node/here1", "a fan")
        approve(admin, f"{word} Node/here1", f"{word} it")
        expect(page.get_by_text("carried out")).to_be_visible()
        operator.in_cluster("nodes/here1")
        expect(page.get_by_role("link", name=back, exact=True)).to_be_visible()


# Who may not


def test_a_viewer_finds_no_button(house: Followed) -> None:
    visit = house.visit("viewer")
    page = visit.page
    buttons = page.get_by_role("button", name=BUTTONS)
    for path in WITH_BUTTONS:
        assert visit.in_cluster(path) == 200, path
        expect(page.locator("main")).to_be_visible()
        assert buttons.count() == 0, path
        assert page.get_by_role("link", name=re.compile("^(Terminal|Files)$")).count() == 0, path
    expect(page.locator("main")).to_contain_text("you need the role operator")
    assert not visit.problems, json.dumps(visit.problems)
    page.context.close()


@pytest.mark.parametrize("who", ["viewer", OUTSIDER, ""])
def test_what_is_posted_by_hand_is_refused(house: Followed, who: str) -> None:
    """Of somebody who is not known, too, who is led to the login."""
    hand, here = requests.Session(), f"{house.address}/clusters/here"
    token = ""
    if who:
        assert hand.post(f"{house.address}/login", {"credential": who}, headers=SAME).ok
        found = re.search(r'name="token" value="([0-9a-f]{64})"', hand.get(here).text)
        assert found
        token = found[1]
    head, outside = house.head, who == OUTSIDER
    seen = {"named": "main", "seen": f"{head}-{'0' * 64}", "why": "mine"}
    end = {"action": "end", "target": "Session/demo/talks", "base": head, "do": "commit"}
    node = {"action": "node", "target": "Node/here1", "value": "cordoned", "base": head, "do": "commit"}
    for path, fields, status in (
        ("orders/approve", seen, 403),
        ("orders/rollback", seen, 403),
        ("orders/suspend", {"why": "mine"}, 403),
        ("orders/resume", {}, 403),
        ("orders/reconcile", {}, 403),
        ("change", end, 404 if outside else 403),
        ("change", node, 404 if outside else 403),
    ):
        answer = hand.post(f"{here}/{path}", {"token": token, **fields}, headers=SAME, allow_redirects=False)
        assert answer.status_code == (status if who else 303), (path, answer.text)
        assert who or answer.headers["location"].startswith("/login"), path
    for path in ("terminal", "files"):
        answer = hand.get(f"{here}/sessions/demo/talks/{path}", allow_redirects=False)
        assert answer.status_code == ((404 if outside else 403) if who else 303), path
    assert house.head == head
    assert not [each for each in house.server.ask("/audit?limit=100") if each["actor"] == who]
