"""`bai serve` follows a real remote, over HTTP with a password, over SSH, and on a real forge: a push runs at
once; whatever happens to the remote or the copy, the last good state stays, and the API says what is wrong.

The interval is an hour where only a message or an event may wake the loop, and a second where it has to look
by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from providers.process.linux import procfs
from tests.bai.conftest import CLUSTER, Repo
from tests.lab.cache import LabUnavailable
from tests.lab.git_http import PASSWORD, USER, GitHttp, Hook
from tests.lab.gitea import Gitea
from tests.lab.serve import SECRET, Serve
from tests.lab.sshd import SshdNodes
from tests.reconciler.gitops.repositories import git

pytestmark = pytest.mark.slow
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: demo}}
spec:
  command: [sleep, "100000"]
  resources: {{cpu: 100m, memory: 16MiB}}
  stop: {{grace: 0s}}
"""
LOGIN = {"BAI_GIT_USER": USER, "BAI_GIT_PASSWORD": PASSWORD}
RECORDED = Path(__file__).resolve().parents[1] / "data" / "webhooks"


@dataclass
class House:
    """A working copy, the remote's address, and what follows it."""

    folder: Path
    follow: str
    push_to: str
    environment: dict[str, str]
    server: Serve | None = None

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def settle(self) -> None:
        self.work.mkdir(parents=True)
        git(self.work, "init", "--quiet")
        git(self.work, "remote", "add", "origin", self.push_to)
        self.push("cluster", CLUSTER)

    def push(self, name: str, text: str | None = None, *options: str) -> str:
        """Write, commit and push; the commit."""
        (self.work / f"{name}.yaml").write_text(SESSION.format(name=name) if text is None else text)
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--message", f"Add {name}")
        git(self.work, "push", "--quiet", *options, "origin", "HEAD:main")
        return self.head()

    def head(self) -> str:
        return git(self.work, "rev-parse", "HEAD")

    def serve(self, *, interval: str = "1h") -> Serve:
        self.server = Serve(self.folder / "serve", self.follow, self._environment, interval=interval)
        return self.server

    def bai(self, *words: str) -> tuple[int, str]:
        """Another command, on the same store: exit code and all it says."""
        assert self.server is not None
        said = Repo(self.work, self._environment)("--state", self.server.state, *words)
        return said.code, said.out + said.err

    def once(self) -> tuple[int, str]:
        """`bai reconcile --once` with a state of its own."""
        options = ("reconcile", "--once", "--remote", self.follow)
        said = Repo(self.work, self._environment).process("--state", str(self.folder / "once.db"), *options)
        return said.code, said.out + said.err

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "BAI_PROCESS_ROOT": str(self.folder / "machine"), "XDG_STATE_HOME": str(self.folder / "state"),
            **self.environment,
        }  # fmt: skip

    def pids(self) -> list[int]:
        """Of the sessions' processes that live."""
        assert self.server is not None
        found = self.server.ask("/resources?kind=Session")
        kernels = [kernel for each in found for kernel in each.get("kernels", ())]
        pids = [kernel["pid"] for kernel in kernels if kernel["state"] == "running" and kernel["pid"]]
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    def lose(self) -> None:
        """Everything that runs is gone, supervisors first, as after somebody's `kill -9`."""
        for path in (self.folder / "machine").glob("kernels/*/state.json"):
            state = json.loads(path.read_text())
            for each in ("supervisor", "inner", "pid"):
                procfs.send(state.get(each, 0), state.get(f"{each}_start", 0), signal.SIGKILL)

    def close(self) -> None:
        if self.server is None:
            return
        self.server.kill()
        for path in self.work.glob("*.yaml"):
            path.unlink()
        (self.work / "cluster.yaml").write_text(CLUSTER)
        self.bai("state", "unlock", "--yes")
        code, said = self.bai("destroy", "--yes")
        assert code == 0, said
        assert list((self.folder / "machine" / "kernels").glob("*")) == []


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[GitHttp]:
    try:
        made = GitHttp(tmp_path / "forge")
    except LabUnavailable as error:
        pytest.skip(f"HTTP remote: {error}")
    with made:
        yield made


@pytest.fixture
def house(forge: GitHttp, tmp_path: Path) -> Iterator[House]:
    """Over HTTP with a password."""
    url = forge.repository("cluster")
    made = House(tmp_path, url, forge.with_password(url), LOGIN)
    made.settle()
    yield made
    made.close()


@pytest.fixture
def ssh_house(sshd_nodes: SshdNodes, tmp_path: Path) -> Iterator[House]:
    """Over SSH, with a key and a known host."""
    node = sshd_nodes.private()
    bare = tmp_path / "forge" / "cluster.git"
    bare.mkdir(parents=True)
    git(bare, "init", "--quiet", "--bare")
    hosts = tmp_path / "known_hosts"
    shutil.copyfile(sshd_nodes.known_hosts, hosts)
    login = {"BAI_GIT_KEY": str(sshd_nodes.key), "BAI_GIT_KNOWN_HOSTS": str(hosts)}
    made = House(tmp_path, f"ssh://root@{node.address}{bare}", str(bare), login)
    made.settle()
    yield made
    made.close()
    node.kill()


@pytest.fixture
def gitea_house(gitea: Gitea, tmp_path: Path) -> Iterator[House]:
    """On a real forge."""
    push_to = gitea.repository("followed")
    url = push_to.replace(push_to.partition("://")[2].partition("@")[0] + "@", "")
    made = House(tmp_path, url, push_to, LOGIN)
    made.settle()
    yield made
    made.close()


def test_a_push_runs_and_drift_is_repaired_by_its_event(house: House, forge: GitHttp) -> None:
    server = house.serve()
    server.until_good()  # It hears events from then on.
    forge.hook = Hook(server.hook, SECRET)
    house.push("one")
    server.until_runs("demo/one")
    pids = house.pids()
    # Nothing but the provider's event can tell of it: the next look would be in an hour.
    house.lose()
    server.until(lambda: house.pids() not in ([], pids), "a new process runs")
    server.until_good()
    assert server.stop() == 0
    assert "Traceback" not in server.said()


@pytest.mark.xdist_group("gitea")
def test_a_push_to_a_real_forge_runs(gitea_house: House, gitea: Gitea) -> None:
    server = gitea_house.serve()
    server.until_good()
    gitea.hook("followed", server.hook, SECRET)
    commit = gitea_house.push("one")
    server.until_runs("demo/one")
    assert server.ask("")["commit"] == commit
    gitea.hook("followed", server.hook, "another secret")
    gitea_house.push("two")
    server.until_runs("demo/two")


@pytest.mark.xdist_group("sshd")
def test_over_ssh_another_host_key_changes_nothing(
    ssh_house: House, sshd_nodes: SshdNodes, tmp_path: Path
) -> None:
    server = ssh_house.serve(interval="1s")
    ssh_house.push("one")
    server.until_runs("demo/one")
    hosts = tmp_path / "known_hosts"
    right = hosts.read_text()
    other = (sshd_nodes.folder / "key.pub").read_text()
    address = ssh_house.follow.partition("@")[2].partition("/")[0]
    hosts.write_text(f"{address} {other}")
    note = server.until_notes("stays in force")
    assert "Host key verification failed" in note
    ssh_house.push("two")  # Not before: a pass may have been let in with the right key.
    server.until_looked()
    assert server.states() == {"Session/demo/one": "RUNNING"}
    code, said = ssh_house.once()
    assert code == 1 and "Host key verification failed" in said and "Traceback" not in said
    hosts.write_text(right)
    server.until_runs("demo/two")
    server.until_good()


def test_a_wrong_password_changes_nothing_and_is_not_shown(house: House, forge: GitHttp) -> None:
    server = house.serve(interval="1s")
    house.push("one")
    server.until_runs("demo/one")
    pids = house.pids()
    forge.password = "changed-word-2"
    note = server.until_notes("stays in force")
    assert "Authentication failed" in note
    assert PASSWORD not in note and PASSWORD not in server.said()
    assert server.states() == {"Session/demo/one": "RUNNING"}
    code, said = house.once()
    assert code == 1 and "Authentication failed" in said
    assert PASSWORD not in said and "Traceback" not in said
    # What is there is looked after all the same.
    house.lose()
    server.until(lambda: house.pids() not in ([], pids), "a new process runs")
    forge.password = PASSWORD
    server.until_good(house.head())


def test_a_remote_that_is_away_for_a_while(house: House, forge: GitHttp) -> None:
    server = house.serve(interval="1s")
    good = house.push("one")
    server.until_runs("demo/one")
    forge.down()
    assert good[:12] in server.until_notes("stays in force")
    # It may even be started anew meanwhile.
    assert server.stop() == 0
    server.start()
    server.until_notes("stays in force")
    assert server.ask("")["commit"] == good
    assert server.states() == {"Session/demo/one": "RUNNING"}
    git(house.work, "remote", "set-url", "origin", str(forge.path("cluster")))
    house.push("two")
    forge.up()
    server.until_runs("demo/two")
    server.until_good(house.head())


def test_history_that_is_rewritten_waits_for_somebody(house: House) -> None:
    server = house.serve(interval="1s")
    house.push("one")
    good = house.push("two")
    server.until_runs("demo/two")
    git(house.work, "reset", "--quiet", "--hard", "HEAD~1")
    other = house.push("three", None, "--force")
    note = server.until_notes("stays in force")
    assert good[:12] in note
    assert set(server.states()) == {"Session/demo/one", "Session/demo/two"}
    server.ask("/rollback", "POST", commit=other, why="it was a mistake")
    server.until_runs("demo/three")
    server.until(lambda: set(server.states()) == {"Session/demo/one", "Session/demo/three"}, "two is gone")
    server.ask("/resume", "POST")
    last = house.push("four")
    server.until_runs("demo/four")
    server.until_good(last)


def _lose_objects(copy: Path) -> None:
    (copy / "objects").rename(copy.with_name("lost"))


def _spoil_everything(copy: Path) -> None:
    # The loop's git has files and folders here that come and go.
    for folder, _, names in os.walk(copy / "objects"):
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                path.chmod(0o644)
                path.write_bytes(b"\0" * 8)


def _lose_a_branch(copy: Path) -> None:
    (copy / "refs" / "heads" / "main").write_text("1" * 40 + "\n")


def _lose_all(copy: Path) -> None:
    # In one step, and no more than that: the loop may be at it, and write to where it is.
    copy.rename(copy.with_name("lost"))


@pytest.mark.parametrize("damage", [_lose_objects, _spoil_everything, _lose_a_branch, _lose_all])
def test_a_damaged_copy_is_made_anew(house: House, damage: Callable[[Path], None]) -> None:
    server = house.serve(interval="1s")
    house.push("one")
    server.until_runs("demo/one")
    damage(server.copy)
    commit = house.push("two")
    server.until_runs("demo/two")
    server.until_good(commit)
    assert set(server.states()) == {"Session/demo/one", "Session/demo/two"}


def test_a_bad_commit_and_a_damaged_remote_change_nothing(house: House, forge: GitHttp) -> None:
    server = house.serve(interval="1s")
    good = house.push("one")
    server.until_runs("demo/one")
    bad = house.push("two", "kind: nonsense\n")
    note = server.until_notes("cannot be used")
    assert bad[:12] in note and good[:12] in note and "two.yaml:1:" in note
    forge.down()
    bare = forge.path("cluster")
    git(house.work, "remote", "set-url", "origin", str(bare))
    better = house.push("two")
    kept = shutil.copytree(bare, bare.with_name("kept"))
    _spoil_everything(bare)
    forge.up()
    server.until_looked()
    server.until_notes("cannot be fetched")
    assert server.states() == {"Session/demo/one": "RUNNING"}
    assert server.ask("")["commit"] == good
    forge.down()
    shutil.rmtree(bare)
    kept.rename(bare)
    forge.up()
    server.until_runs("demo/two")
    server.until_good(better)


def _signed(forge: str, body: bytes) -> dict[str, str]:
    """The headers that go with a recorded message."""
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "github": {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={digest}"},
        "gitlab": {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": SECRET},
        "bitbucket": {"X-Event-Key": "repo:push", "X-Hub-Signature": f"sha256={digest}"},
        "bitbucket-server": {"X-Event-Key": "repo:refs_changed", "X-Hub-Signature": f"sha256={digest}"},
        "forgejo": {"X-Forgejo-Event": "push", "X-Forgejo-Signature": digest},
    }[forge]


def test_messages_of_all_forges(house: House) -> None:
    """Bodies in the shapes that the forges' documentation describes, for a push that the test makes. Nothing
    runs: what happens to sessions would have the loop look by itself."""
    server = house.serve()
    server.until_good(house.head())
    for path in sorted(RECORDED.glob("*.json")):
        commit = house.push("note", f"# {path.stem}\n")
        body = json.dumps(_with_commit(json.loads(path.read_text()), commit)).encode()
        headers = _signed(path.stem, body)
        forged = {**headers, "X-Gitlab-Token": "guess"} if "X-Gitlab-Token" in headers else headers
        spoiled = body if "X-Gitlab-Token" in headers else body + b" "
        assert requests.post(server.hook, data=spoiled, headers=forged, timeout=30).status_code == 401
        assert server.ask("")["commit"] != commit
        answer = requests.post(server.hook, data=body, headers=headers, timeout=30)
        assert (answer.status_code, answer.json()) == (202, {"verdict": "moved"}), path.stem
        server.until_good(commit)
        again = requests.post(server.hook, data=body, headers=headers, timeout=30)
        assert again.json() == {"verdict": "again"}, path.stem


def _with_commit(value: Any, commit: str) -> Any:
    if isinstance(value, dict):
        return {key: _with_commit(each, commit) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_commit(each, commit) for each in value]
    return commit if value == "NEW" else value
