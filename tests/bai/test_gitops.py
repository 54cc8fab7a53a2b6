"""From a push to a running session and back, with the real command and real processes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bai.conftest import CLUSTER, PATIENCE, WHO, Repo
from tests.harness.fork_client import Started
from tests.reconciler.gitops.repositories import Pair, git
from tests.waiting import until

pytestmark = pytest.mark.slow


class House:
    """A remote, a working copy with the command, and a loop that follows the remote."""

    def __init__(self, repo: Repo, folder: Path) -> None:
        self.pair = Pair(folder)
        self.store = folder / "loop" / "store.db"
        self.store.parent.mkdir()
        self.repo = Repo(self.pair.work, {**repo.env, **WHO, "XDG_STATE_HOME": str(folder / "loop")})
        self.pair.commit({"cluster.yaml": CLUSTER})
        self.pair.push("--set-upstream")
        self.log = folder / "loop.log"
        self._loop: Started | subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        words = ("reconcile", "--remote", str(self.pair.bare), "--interval", "1s", *options)
        with self.log.open("a") as out:
            self._loop = self.repo.stay("--state", str(self.store), *words, out=out)

    def stop(self) -> int:
        assert self._loop is not None
        self._loop.send_signal(signal.SIGTERM)
        return self._loop.wait(PATIENCE)

    def says(self, words: str) -> bool:
        return words in self.log.read_text()

    def waits_for(self, words: str) -> None:
        until(lambda: self.says(words), f"{words!r} in {self.log.read_text()}")

    def bai(self, *words: str) -> str:
        return self.repo.ok("--state", str(self.store), *words).out

    def push(self, name: str, *, text: str | None = None) -> str:
        if text is None:
            self.repo.session(name, "sleep", "1000")
        else:
            self.repo.write(f"{name}.yaml", text)
        commit = self.pair.commit({})
        self.pair.push()
        return commit

    def close(self) -> None:
        if self._loop is not None and self._loop.poll() is None:
            self._loop.kill()
            self._loop.wait()
        self.repo("--state", str(self.store), "destroy", "--yes")


@pytest.fixture
def house(repo: Repo, tmp_path: Path) -> Iterator[House]:
    made = House(repo, tmp_path / "house")
    yield made
    made.close()


def test_what_is_pushed_runs_and_what_is_bad_changes_nothing(house: House) -> None:
    house.start()
    house.push("one")
    house.waits_for("created Session/demo/one")
    bad = house.push("two", text="kind: nonsense\n")
    house.waits_for(f"commit {bad[:12]} cannot be used")
    assert "RUNNING" in house.repo("--state", str(house.store), "--revision", "HEAD~1", "get").out
    (house.pair.work / "two.yaml").unlink()
    house.push("three")
    house.waits_for("created Session/demo/three")
    assert house.stop() == 0
    assert house.says("stopped")


def test_orders(house: House) -> None:
    first = house.push("one")
    house.start()
    house.waits_for("created Session/demo/one")
    house.push("two")
    house.waits_for("created Session/demo/two")
    house.bai("rollback", first, "--yes", "--why", "two is bad")
    house.waits_for("deleted Session/demo/two")
    assert f"the loop is held at {first[:12]} by" in house.bai("status")
    house.bai("suspend", "--why", "lunch")
    house.waits_for("suspended by")
    assert '"state": "suspended"' in house.bai("status", "--format", "json")
    house.bai("resume")
    until(lambda: house.log.read_text().count("created Session/demo/two") == 2, "two is back")
    shown = house.bai("history")
    assert "held there (two is bad)" in shown and "suspended (lunch)" in shown
    assert house.stop() == 0


def test_a_commit_waits_for_approval(house: House) -> None:
    house.start("--mode", "approve")
    house.waits_for("created Project/demo")  # What it finds at its first start needs no approval.
    commit = house.push("one")
    house.waits_for(f"{commit[:12]} waits for approval")
    assert not house.says("created Session/demo/one")
    until(lambda: '"state": "awaiting-approval"' in house.bai("status", "--format", "json"), "it is told")
    assert f"bai approve {commit[:12]}" in house.bai("status")
    house.bai("approve", commit)
    house.waits_for("created Session/demo/one")
    assert house.stop() == 0


def test_run_is_a_push_and_then_being_in_it(house: House) -> None:
    house.start()
    words = ("run", "--batch", "--name", "quick", "--cpu", "100m", "--memory", "64MiB", "--rm")
    said = house.repo("--state", str(house.store), *words, "--", "sh", "-c", "echo been here; exit 7")
    assert (said.code, said.out) == (7, "been here\n"), said.err
    assert git(house.pair.bare, "log", "--format=%s", "-2", "main").splitlines() == [
        "Session/demo/quick is done",
        "Run Session/demo/quick",
    ]
    house.waits_for("deleted Session/demo/quick")


def test_run_without_a_loop_applies_from_here(repo: Repo) -> None:
    words = ("run", "--batch", "--cpu", "100m", "--memory", "64MiB", "--rm")
    said = repo(*words, "--", "sh", "-c", "echo here; exit 3")
    assert (said.code, said.out) == (3, "here\n"), said.err
    assert "Session/" not in repo.ok("plan").out


def committed(repo: Repo) -> None:
    """All that is there, in a repository of its own."""
    git(repo.root, "init", "--quiet")
    git(repo.root, "add", "--all")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@cluster.example")
    git(repo.root, *who, "commit", "--quiet", "-m", "a")


def test_run_writes_in_the_one_normal_form(repo: Repo) -> None:
    words = ("run", "--batch", "--name", "tidy", "--cpu", "100m", "--memory", "64MiB", "-e", "A=b c")
    repo.ok(*words, "--", "sh", "-c", "true\nfalse || true")
    repo.ok("fmt", "--check", str(repo.root / "sessions"))


def test_run_before_the_first_commit_leaves_nothing_either(repo: Repo) -> None:
    git(repo.root, "init", "--quiet")
    words = ("run", "--batch", "--cpu", "100m", "--memory", "64MiB", "--rm")
    said = repo(*words, "--", "echo", "here")
    assert (said.code, said.out) == (0, "here\n"), said.err
    assert not (repo.root / "sessions").exists() and "Session/" not in repo.ok("plan").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--branch", "try", "--batch", "--", "true"), "no remote"),
        (("--branch", "try", "--no-push", "--batch", "--", "true"), "a branch is pushed"),
        ((), "no terminal"),
    ],
)
def test_run_promises_nothing_that_cannot_be(repo: Repo, words: tuple[str, ...], complaint: str) -> None:
    committed(repo)
    said = repo("run", *words)
    assert said.code == 1 and complaint in said.err, said.err
    assert not (repo.root / "sessions").exists()
    assert git(repo.root, "log", "--format=%s") == "a" and not git(repo.root, "status", "--porcelain")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--branch", "try", "--batch"), "no git repository"),
        (("--env", "nonsense"), "NAME=VALUE"),
        (("--mount", "data"), "VOLUME:/PATH"),
        (("--batch", "--memory", "much"), "not an amount of memory"),
        (("--batch", "--project", "nobody"), "nobody"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_stays(repo: Repo, words: tuple[str, ...], complaint: str) -> None:
    before = sorted(repo.root.rglob("*.yaml"))
    said = repo("run", *words)
    assert said.code == 1 and complaint in said.out + said.err
    assert sorted(repo.root.rglob("*.yaml")) == before


def test_a_review_without_an_upstream_asks_for_a_base(repo: Repo) -> None:
    committed(repo)
    said = repo("review")
    assert said.code == 1 and "--base main" in said.err
    assert "No changes" in repo.ok("review", "--base", "HEAD").out
