"""Who only looks gets the last good documents when a file is broken, and is told in one line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bai.conftest import CLUSTER, WHO, Repo, new_repo, tidy

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="starts a native session")]

BROKEN = """\
apiVersion: bai/v1
kind: Session
metadata: {name: worse, project: demo}
spec: {resources: {gpu: 1}, command: [sleep, "9"]}
"""
NODE = """\
apiVersion: bai/v1
kind: Node
metadata: {name: other}
spec: {adress: gpu-7}
"""
SECOND = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: second}
spec: {provider: process}
"""
MISTAKE = "worse.yaml:4:20: BAI-V020"
READING = (
    ("get",),
    ("get", "nodes"),
    ("get", "--format", "json"),
    ("describe", "talker"),
    ("explain", "talker"),
    ("top", "--once"),
    ("events", "nobody"),
    ("capacity",),
    ("nodes", "list"),
    ("nodes", "show", "localhost"),
    ("nodes", "check"),
    ("volumes",),
    ("state", "list"),
    ("notify", "list"),
    ("images",),
)
"""Commands that look and change no plan."""
OF_STORE = (("events",), ("events", "talker"), ("history",), ("audit",))
OF_KERNELS = (("logs", "talker"), ("exec", "talker", "--", "true"))
"""Those for which it does not matter what sessions' documents say."""
ACTING = (("plan",), ("apply", "--yes"), ("destroy", "--yes"), ("reconcile", "--once"), ("validate",))


def git(repo: Repo, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=repo.root, check=True, capture_output=True, text=True, env={**os.environ, **WHO}
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """A session runs; its documents are in no git repository."""
    repo = new_repo(tmp_path_factory.mktemp("broken"))
    repo.session("talker", "sh", "-c", "echo hello; exec sleep 1000")
    try:
        repo.ok("apply", "--yes")
        yield repo
    finally:
        tidy(repo)


@pytest.fixture
def broken(running: Repo) -> Iterator[Repo]:
    """A file beside has a mistake."""
    file = running.write("worse.yaml", BROKEN)
    yield running
    file.unlink()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_reads_goes_on_without_the_broken_file(broken: Repo, words: tuple[str, ...]) -> None:
    said = broken(*words)
    assert said.code == 0 or "no resource named nobody" in said.err, said.err
    (warning,) = [line for line in said.err.splitlines() if line.startswith("warning: worse.yaml")]
    assert warning == f"warning: {MISTAKE}: 'gpu' is not a slot; shown without worse.yaml"


@pytest.mark.parametrize("words", (*OF_STORE, *OF_KERNELS), ids=" ".join)
def test_what_needs_no_session_documents_does_not_look_at_them(broken: Repo, words: tuple[str, ...]) -> None:
    said = broken(*words)
    assert said.code == 0 and "warning" not in said.err, said.err
    broken.write("worse.yaml", "not: [even YAML\n")
    again = broken(*words)
    assert again.code == 0 and "warning" not in again.err, again.err


@pytest.mark.parametrize("words", OF_KERNELS, ids=" ".join)
def test_what_goes_to_a_session_says_what_is_wrong_with_nodes(broken: Repo, words: tuple[str, ...]) -> None:
    broken.write("worse.yaml", NODE)
    said = broken(*words)
    assert said.code == 0 and said.err.startswith("warning: worse.yaml:4:"), said.err
    assert said.err.endswith("shown without worse.yaml\n")
    assert not broken.ok("history").err


@pytest.mark.parametrize("words", (*OF_STORE, *OF_KERNELS), ids=" ".join)
def test_of_two_clusters_all_documents_say_which_counts(broken: Repo, words: tuple[str, ...]) -> None:
    broken.write("worse.yaml", SECOND)
    said = broken(*words)
    assert said.err.startswith("warning: cluster.yaml:9:7: BAI-V043: which cluster is not said"), said.err


@pytest.mark.parametrize("written", ['"Clu\\x73ter"', '"Clu\\\n  ster"', "!!str Cluster"])
def test_a_second_cluster_cannot_hide(broken: Repo, written: str) -> None:
    broken.write("worse.yaml", SECOND.replace("Cluster", written))
    assert broken("history").err.splitlines()[0] == broken("capacity").err.splitlines()[0]


@pytest.mark.parametrize("words", ACTING, ids=" ".join)
def test_what_acts_does_nothing(broken: Repo, words: tuple[str, ...]) -> None:
    said = broken(*words)
    assert said.code == 1 and MISTAKE in said.err
    assert "RUNNING" in broken.ok("get").out


def test_in_git_they_are_those_of_the_last_good_commit(tmp_path: Path) -> None:
    """Also when it is the cluster that is broken, and committed."""
    repo = new_repo(tmp_path)
    git(repo, "init", "-q")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "good")
    good = git(repo, "rev-parse", "HEAD")
    for wrong in (("provider: process", "provider: [process"), ("kind: Node", "kind: Nod")):
        repo.write("cluster.yaml", CLUSTER.replace(*wrong))
        said = repo.ok("nodes", "list")
        assert "localhost" in said.out
        assert said.err.startswith("warning: cluster.yaml:") and said.err.count("\n") == 1
        assert said.err.endswith(f"shown as of commit {good[:12]}\n")
        git(repo, "commit", "-qam", "bad")
    assert repo("get", "--revision", "HEAD").code == 1, "who names a commit gets this commit"
    repo.write("cluster.yaml", CLUSTER)
    assert not repo.ok("nodes", "list").err


def test_without_good_documents_the_mistakes_are_said(tmp_path: Path) -> None:
    repo = new_repo(tmp_path)
    repo.write("cluster.yaml", CLUSTER.replace("kind: Cluster", "kind: Clutser"))
    said = repo("get")
    assert said.code == 1 and "cluster.yaml:2:7: BAI-V016" in said.err and "warning" not in said.err
