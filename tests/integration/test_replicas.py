"""Two replicas of `bai reconcile` on one server's store and real processes: one leads; when it is killed,
stopped or silent, the other goes on, and nothing is done twice."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bai.conftest import Repo, new_repo
from tests.lab.postgres import Server
from tests.waiting import until

ROUNDS = int(os.environ.get("BAI_LEADER_KILLS", "5"))


class Replica:
    """One `bai reconcile` as a process of its own."""

    def __init__(self, repo: Repo, lease: str) -> None:
        ours, theirs = os.pipe()
        with open(theirs, "w") as out:
            self.process = repo.stay("reconcile", "--interval", "1s", "--lease", lease, out=out)
        self._said = open(ours, encoding="utf-8")  # noqa: SIM115 - `_read` closes it
        self.lines: list[str] = []
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with self._said as said:
            for line in said:
                self.lines.append(line.rstrip())

    def said(self, words: str, after: int = 0) -> bool:
        return any(words in line for line in self.lines[after:])

    @property
    def leads(self) -> bool:
        """By its own last word on that."""
        told = [line for line in self.lines if line.endswith(" leads") or "lost the lead" in line]
        return self.process.poll() is None and bool(told) and told[-1].endswith(" leads")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(60)


@pytest.fixture
def repo(tmp_path: Path, postgres: Server) -> Iterator[Repo]:
    url = postgres.database()
    made = new_repo(tmp_path)
    made.env["BAI_STATE"] = url
    yield made
    for path in made.root.glob("s*.yaml"):
        path.unlink()
    made("state", "unlock", "--yes")
    made.ok("destroy", "--yes")
    postgres.drop(url)


@pytest.fixture
def replicas(repo: Repo) -> Iterator[Callable[[str], Replica]]:
    begun: list[Replica] = []

    def begin(lease: str) -> Replica:
        begun.append(Replica(repo, lease))
        return begun[-1]

    yield begin
    for each in begun:
        each.end()


def running(repo: Repo) -> dict[str, list[str]]:
    """Ids of the containers that run, by session."""
    items = json.loads(repo.ok("get", "sessions", "--format", "json").out)["items"]
    return {
        item["id"].rpartition("/")[2]: [k["id"] for k in item.get("kernels", ()) if k["state"] == "running"]
        for item in items
    }


def created(repo: Repo) -> list[str]:
    """Sessions in the order in which the audit says that they were begun, none of them made twice: one that
    a lost lease interrupted is begun again and finds its container, another one would be of generation 2."""
    assert [name for names in running(repo).values() for name in names if not name.endswith("-g1")] == []
    entries = repo.ok("audit", "-n", "1000", "--format", "json").json["entries"]
    sessions = [each for each in entries if each["resource"].startswith("Session/")]
    return list(dict.fromkeys(each["resource"] for each in sessions if each["verb"] in ("create", "replace")))


def runs(repo: Repo, *names: str) -> None:
    until(lambda: all(running(repo).get(name) for name in names), f"{names} run")


def leader_of(pair: list[Replica]) -> Replica:
    """The one that leads; who has lost the lead, as one that was held up, says so a moment later."""

    def found() -> Replica | None:
        leading = [each for each in pair if each.leads]
        return leading[0] if len(leading) == 1 else None

    return until(found, "one of them leads")


@pytest.mark.slow
def test_when_the_leader_is_killed_the_other_goes_on(repo: Repo, replicas: Callable[[str], Replica]) -> None:
    repo.session("s0", "sleep", "100000")
    pair = [replicas("3s"), replicas("3s")]
    leader_of(pair)
    runs(repo, "s0")
    before = running(repo)["s0"]
    for number in range(1, ROUNDS + 1):
        killed = leader_of(pair)
        repo.session(f"s{number}", "sleep", "100000")
        killed.send(signal.SIGKILL)
        killed.process.wait(60)
        pair.remove(killed)
        runs(repo, f"s{number}")
        pair.append(replicas("3s"))
    leader_of(pair)
    found = running(repo)
    assert found["s0"] == before
    assert {name: len(kernels) for name, kernels in found.items()} == {f"s{n}": 1 for n in range(ROUNDS + 1)}
    assert sorted(created(repo)) == sorted(f"Session/demo/{name}" for name in found)
    # What runs on the machine, whatever the store believes.
    kernels = list((Path(repo.env["BAI_PROCESS_ROOT"]) / "kernels").iterdir())
    assert len(kernels) == ROUNDS + 1


@pytest.mark.slow
def test_a_leader_that_is_silent_is_replaced_and_knows_it_when_it_wakes(
    repo: Repo, replicas: Callable[[str], Replica]
) -> None:
    pair = [replicas("15s"), replicas("15s")]
    silent = leader_of(pair)
    (other,) = (each for each in pair if each is not silent)
    silent.send(signal.SIGSTOP)
    until(lambda: other.leads, "the other one leads")
    repo.session("s1", "sleep", "100000")
    runs(repo, "s1")
    before, seen = running(repo), len(silent.lines)
    silent.send(signal.SIGCONT)
    until(lambda: silent.said("leads; waiting", seen) or silent.said("lost the lead", seen), "it knows")
    repo.session("s2", "sleep", "100000")
    runs(repo, "s2")
    until(lambda: any(each.said("created Session/demo/s2") for each in pair), "somebody says so")
    assert running(repo)["s1"] == before["s1"]
    assert created(repo) == ["Session/demo/s1", "Session/demo/s2"]


@pytest.mark.slow
def test_a_leader_that_ends_hands_over(repo: Repo, replicas: Callable[[str], Replica]) -> None:
    pair = [replicas("1h"), replicas("1h")]
    first = leader_of(pair)
    (other,) = (each for each in pair if each is not first)
    first.send(signal.SIGTERM)
    assert first.process.wait(60) == 0
    until(lambda: other.leads, "the other one leads")
    repo.session("s1", "sleep", "100000")
    runs(repo, "s1")
