"""Every page of `bai serve` as a process, over native processes and over Docker, for each role.

`PAGES` is a table: a page that is new is a line more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from tests.bai.web.browser.house import (
    OUTSIDER,
    PROVIDERS,
    ROLES,
    House,
    access_file,
    documents,
    environment_of,
    node_of,
    without_sessions,
)
from tests.lab.browser import Chromium
from tests.lab.serve import Serve
from tests.reconciler.gitops.repositories import git

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]


@dataclass(frozen=True)
class Place:
    """A page of the cluster's: what everybody who may see it reads there, and with which status it answers
    who sees none of its projects."""

    path: str
    shows: str
    outside: int = 200


PAGES = (
    Place("", "Cores and GPUs"),
    Place("nodes", "here1"),
    Place("nodes/here1", "NUMA node 0"),
    Place("queue", "demo/waits"),
    Place("sessions", "demo/talks"),
    Place("sessions/demo/talks", "Placement", 404),
    Place("sessions/demo/waits?explain=1", "Why it waits", 404),
    Place("sessions/demo/talks/logs", "word", 404),
    Place("plan", "Plan", 403),
    Place("review?commit=main", "Review", 403),
    Place("history", "History", 403),
    Place("events", "Session/demo/talks"),
    Place("audit", "Session/demo/talks"),
    Place("usage", "Usage"),
    Place("usage?by=session", "demo/talks"),
    Place("capacity", "Capacity"),
    Place("resources", "Resources"),
    Place("resources?kind=Session", "talks"),
)


@pytest.fixture(scope="module", params=PROVIDERS)
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: Chromium
) -> Iterator[House]:
    provider: str = request.param
    text, folder = documents(provider, node_of(request)), tmp_path_factory.mktemp(provider)
    work = folder / "work"
    work.mkdir()
    git(work, "init", "--quiet", "--initial-branch=main")
    (work / "cluster.yaml").write_text(text)
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "A cluster")
    access = str(access_file(folder))
    environment = environment_of(folder)
    with Serve(folder / "serve", str(work), environment, "--access", access, interval="1s") as server:
        server.until_runs("demo/talks")
        with chromium.reaching(int(server.url.rpartition(":")[2])):
            yield House(server.url, chromium)
        (work / "cluster.yaml").write_text(without_sessions(text))
        git(work, "commit", "--quiet", "--all", "--message", "Nothing runs")
        server.until(lambda: not server.states(), "all sessions are gone")


@pytest.mark.parametrize("role", ROLES)
def test_every_page_is_there_for_who_may_see_it(house: House, role: str) -> None:
    visit = house.visit(role)
    for place in PAGES:
        assert visit.in_cluster(place.path) == 200, place
        expect(visit.page.locator("main")).to_contain_text(place.shows)
        visit.waits_for_news()
    assert not visit.problems
    visit.page.context.close()


def test_who_sees_another_project_finds_nothing_of_this_one(house: House) -> None:
    visit = house.visit(OUTSIDER)
    for place in PAGES:
        assert visit.in_cluster(place.path) == place.outside, place
        if place.outside == 200:  # Else it only says what was asked for.
            assert "demo" not in visit.page.content(), place
    visit.page.context.close()


def test_a_stranger_is_led_to_the_login(house: House) -> None:
    visit = house.visit()
    for place in PAGES:
        visit.in_cluster(place.path)
        assert "/login" in visit.page.url, place
        assert "talks" not in visit.page.locator("body").inner_text(), place
    assert not visit.problems
    visit.page.context.close()


def test_from_the_cluster_to_why_a_session_waits_and_what_another_one_says(house: House) -> None:
    visit = house.visit("viewer")
    page = visit.page
    expect(page.get_by_role("heading", name="Cores and GPUs")).to_be_visible()
    visit.go_by_key("q")
    page.get_by_role("link", name="demo/waits", exact=True).first.click()
    expect(page.locator(".reasons li").first).to_contain_text("needs 4096 cores")
    visit.in_cluster("sessions/demo/talks/logs")
    lines = page.locator(".log-lines > span")
    lines.first.wait_for()
    before = lines.count()
    expect(lines.nth(before + 5)).to_contain_text("word")
    assert not visit.problems
    page.context.close()
