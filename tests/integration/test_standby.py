"""Two replicas of `bai serve` on one server's store: the one that stands by answers, and what it is told is
done by the one that leads. The interval is an hour: nothing happens unless somebody is told."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.bai.conftest import CLUSTER, Repo
from tests.integration.test_gitops_remote import SESSION
from tests.lab.postgres import Server
from tests.lab.serve import SECRET, Serve
from tests.reconciler.gitops.repositories import git

pytestmark = pytest.mark.slow


@dataclass
class Site:
    """A bare repository, a working copy, and two servers that follow it, each with a copy of its own."""

    folder: Path
    state: str
    leader: Serve
    other: Serve

    def push(self, name: str) -> str:
        work = self.folder / "work"
        (work / f"{name}.yaml").write_text(SESSION.format(name=name))
        return push(work)

    def hook(self, server: Serve) -> None:
        """As a forge tells of a push."""
        body = json.dumps({"ref": "refs/heads/main"}).encode() + b" " * len(server.url)
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}"}
        answer = requests.post(server.hook, data=body, headers=headers, timeout=60)
        assert answer.json() == {"verdict": "moved"}, answer.text


def push(work: Path) -> str:
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "Change")
    git(work, "push", "--quiet", "origin", "HEAD:main")
    return git(work, "rev-parse", "HEAD")


@pytest.fixture
def site(tmp_path: Path, postgres: Server) -> Iterator[Site]:
    bare, work, state = tmp_path / "remote.git", tmp_path / "work", postgres.database()
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    git(tmp_path, "clone", "--quiet", str(bare), str(work))
    (work / "cluster.yaml").write_text(CLUSTER)
    push(work)
    environment = {"BAI_PROCESS_ROOT": str(tmp_path / "machine")}

    def serve(name: str) -> Serve:
        return Serve(tmp_path / name, str(bare), environment, "--lease", "30s", state=state)

    servers: list[Serve] = []
    try:
        for name in ("one", "two"):
            servers.append(serve(name))
            servers[0].until(lambda: servers[0].ask("")["leads"], "the first leads")
        servers[0].until_good()
        yield Site(tmp_path, state, *servers)
    finally:
        for each in servers:
            each.kill()
        for path in work.glob("*.yaml"):
            path.unlink()
        (work / "cluster.yaml").write_text(CLUSTER)
        repo = Repo(work, environment)
        repo("--state", state, "state", "unlock", "--yes")
        repo.ok("--state", state, "destroy", "--yes")
        postgres.drop(state)


def test_who_stands_by_answers_and_passes_on(site: Site) -> None:
    leader, other = site.leader, site.other
    assert requests.get(f"{leader.url}/readyz", timeout=60).status_code == 200
    assert requests.get(f"{other.url}/readyz", timeout=60).status_code == 503
    standby = f"{other.url}/readyz?standby=true"
    other.until(lambda: requests.get(standby, timeout=60).status_code == 200, "it knows who leads")
    # A webhook that a load balancer sent to the wrong one.
    commit = site.push("a")
    site.hook(other)
    other.until(lambda: other.states() == {"Session/demo/a": "RUNNING"}, "the other one tells that it runs")
    # The leader tells of a pass when it is over; the store knows before what it has done.
    other.until(lambda: other.ask("")["commit"] == commit, "the other one is at that commit")
    told, ours = other.ask(""), leader.ask("")
    assert (told["leads"], told["leader"]) == (False, ours["leader"]) and ours["leads"]
    for path in ("/events", "/audit", "/queue"):
        other.until(lambda at=path: other.ask(at) == leader.ask(at), f"both answer the same to {path}")
    (container,) = other.ask("/resources/Session/demo/a")["kernels"]
    assert container["node"] == "localhost"
    # Orders, of which one names what only the remote has.
    other.ask("/suspend", "POST", why="a move")
    leader.until_notes("suspended by lab (a move)")
    other.until_notes("suspended by lab (a move)")
    other.ask("/resume", "POST")
    leader.until(lambda: leader.ask("")["notes"] == [], "it goes on")
    newest = site.push("b")
    other.ask("/rollback", "POST", commit="main")
    leader.until(lambda: leader.ask("")["pinned"] == newest, "the leader is held at what was pushed")
    other.until(lambda: len(other.states()) == 2 and other.ask("")["commit"] == newest, "both run")
    assert {each["actor"] for each in other.ask("/audit?actor=lab")} == {"lab"}
    leader.kill()
    other.until(lambda: other.ask("")["leads"], "the other one leads")
    other.until(lambda: requests.get(f"{other.url}/readyz", timeout=60).status_code == 200, "it is ready")
    assert set(other.states().values()) == {"RUNNING"}
