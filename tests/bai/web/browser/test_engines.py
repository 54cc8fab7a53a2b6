"""Every page of `bai serve` as a process, over native processes and over Docker, for each role.

`PAGES` is a table: a page that is new is a line more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import expect

from bai.web.auth.static_tokens import hash_of
from tests.bai.web.browser.site import Visit
from tests.lab.browser import Chromium
from tests.lab.docker import Engines
from tests.lab.serve import TOKEN, Serve
from tests.reconciler.gitops.repositories import git

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]
ROLES = ("viewer", "operator", "admin")
"""Their tokens are their names; `outsider` sees another project only, and a stranger has no token."""
OUTSIDER = "outsider"


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
_CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec: {{provider: {provider}}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: demo}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: other}}
---
apiVersion: bai/v1
kind: Node
metadata: {{name: here1}}
spec: {node}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: talks, project: demo}}
spec:
  {image}
  command: [sh, -c, "n=0; while :; do n=$((n + 1)); echo word $n; sleep 0.2; done"]
  resources: {{cpu: 100m, memory: 32MiB}}
  stop: {{grace: 0s}}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: waits, project: demo}}
spec:
  {image}
  command: [sleep, inf]
  resources: {{cpu: 4096, memory: 1GiB}}
"""


@dataclass
class House:
    """`bai serve` with somebody to look at it."""

    address: str
    chromium: Chromium

    def visit(self, token: str = "") -> Visit:
        made = Visit(self.chromium.page(), self.address)
        if token:
            made.log_in(token)
        return made


def access_file(folder: Path) -> Path:
    lines: list[dict[str, Any]] = [
        {"name": name, "sha256": hash_of(name), "role": name if name in ROLES else "viewer"}
        for name in (*ROLES, OUTSIDER)
    ]
    lines[-1]["projects"] = ["other"]
    lines.append({"name": "lab", "sha256": hash_of(TOKEN), "role": "admin"})
    file = folder / "access.json"
    file.write_text(json.dumps({"tokens": lines}))
    return file


def documents(provider: str, node: dict[str, Any]) -> str:
    image = "image: bai-lab:1" if provider == "docker" else "type: interactive"
    return _CLUSTER.format(provider=provider, node=json.dumps(node), image=image)


@pytest.fixture(scope="module", params=["process", "docker"])
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: Chromium
) -> Iterator[House]:
    provider: Literal["process", "docker"] = request.param
    node: dict[str, Any] = {"address": "localhost", "resourceGroup": "all"}
    if provider == "docker":
        engines: Engines = request.getfixturevalue("engines")
        cores = {"numaNodes": [{"id": 0, "cpus": "0-1", "memory": "4GiB"}]}
        (engine,) = engines(1)
        node |= {"docker": {"socket": engine.socket}, "hardware": cores}
    folder = tmp_path_factory.mktemp(provider)
    work = folder / "work"
    work.mkdir()
    git(work, "init", "--quiet", "--initial-branch=main")
    (work / "cluster.yaml").write_text(documents(provider, node))
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "A cluster")
    environment = {"BAI_PROCESS_ROOT": str(folder / "machine"), "BAI_STATE": os.devnull}
    access = str(access_file(folder))
    with Serve(folder / "serve", str(work), environment, "--access", access, interval="1s") as server:
        server.until_runs("demo/talks")
        with chromium.reaching(int(server.url.rpartition(":")[2])):
            yield House(server.url, chromium)
        kept = [each for each in documents(provider, node).split("---\n") if "kind: Session" not in each]
        (work / "cluster.yaml").write_text("---\n".join(kept))
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
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.get_by_role("link", name="demo/waits", exact=True).first.click()
    expect(page.locator(".reasons li").first).to_contain_text("needs 4096 cores")
    visit.in_cluster("sessions/demo/talks/logs")
    lines = page.locator(".log-lines > span")
    lines.first.wait_for()
    before = lines.count()
    expect(lines.nth(before + 5)).to_contain_text("word")
    assert not visit.problems
    page.context.close()
