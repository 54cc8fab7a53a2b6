"""One repository from git to real processes and back, as the command does it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from providers.registry import open_provider
from reconciler.sources.source import open_source, repository_id_of_path
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan_options import PlanOptions
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.plan import PlanError, StalePlan
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from tests.waiting import until

HERE = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: Node
metadata: {name: me}
spec: {address: localhost, resourceGroup: local}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: local}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: demo}
"""

SUM = """
apiVersion: bai/v1
kind: Session
metadata: {name: sum, project: demo}
spec:
  type: batch
  resources: {cpu: 100m, memory: 64MiB}
  command: [sh, -c, 'echo $((40 + 2))']
"""

PAIR = """
apiVersion: bai/v1
kind: Session
metadata: {name: pair, project: demo}
spec:
  resources: {cpu: 100m, memory: 64MiB}
  cluster: {roles: {main: 1, sub: 1}}
  command: [sh, -c, 'echo "$BACKENDAI_CLUSTER_HOST of $BAI_CLUSTER_ADDRESSES"; exec sleep 600']
  stop: {grace: 2s}
"""


def git(folder: Path, *arguments: str) -> str:
    options = ["user.name=t", "user.email=t@example.org", "commit.gpgsign=false"]
    options += ["maintenance.auto=false"]  # Newer gits go on with it after the command has ended.
    words = [word for option in options for word in ("-c", option)]
    done = subprocess.run(["git", *words, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A git repository, and a place of its own for the processes, which are removed in the end."""
    top = Path(tempfile.mkdtemp(prefix="bai-workspace-"))
    monkeypatch.setenv("BAI_PROCESS_ROOT", str(top / "processes"))
    monkeypatch.delenv("BAI_STATE", raising=False)
    repo = top / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    for name, text in {"cluster": HERE, "sum": SUM, "pair": PAIR}.items():
        (repo / f"{name}.yaml").write_text(text)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "all")
    yield repo
    try:
        provider = open_provider("process", {})
        for kernel in provider.observe().kernels:
            provider.remove(kernel.id)
    finally:
        shutil.rmtree(top, ignore_errors=True)


def logs(workspace: Workspace, session: str, kernel: str) -> str:
    found = workspace.store.recorded("here")[f"Session/demo/{session}"].kernels
    chosen = next(each for each in found if f"-{kernel}-" in each)
    return b"".join(workspace.provider.logs(chosen)).decode()


def test_a_plan_that_was_made_to_be_looked_at_is_not_carried_out(folder: Path) -> None:
    with Workspace.open(folder) as workspace:
        shown, whole = workspace.plan(sealed=False), workspace.plan()
        said = replace(whole, actions=shown.actions, basis="", digest="", made_at=shown.made_at)
        assert shown.changes and shown == said and whole.basis and whole.digest
        for forged in (shown, replace(whole, digest=""), replace(whole, basis="")):
            with pytest.raises(StalePlan):
                workspace.apply(forged, holder="tester")
        assert not workspace.provider.observe().kernels and not workspace.store.recorded("here")


def test_from_git_to_processes_and_back(folder: Path) -> None:
    with Workspace.open(folder) as workspace:
        plan = workspace.plan()
        assert {action.verb for action in plan.actions} == {"create"} and not plan.waits
        saved = load_plan(dump_plan(plan))
        assert workspace.apply(saved, holder="tester").ok
        done = workspace.actual
        until(lambda: done().existing["Session/demo/sum"].result == "success", "the batch session ends")
        assert not workspace.plan().changes
        until(lambda: "\n" in logs(workspace, "pair", "sub1"), "the second container speaks")
        assert logs(workspace, "pair", "sub1") == "sub1 of main1=127.0.0.1,sub1=127.0.0.1\n"
        with pytest.raises(StalePlan):
            workspace.apply(saved, holder="tester")
        _edit(folder, workspace)
    _lose_and_find(folder)
    with Workspace.open(folder) as workspace:
        assert workspace.apply(workspace.plan(PlanOptions(destroy=True)), holder="tester").ok
        assert workspace.provider.observe().kernels == ()
        assert workspace.store.recorded("here") == {}


def _edit(folder: Path, before: Workspace) -> None:
    """A label changes in place; the same from the commit, once it is one."""
    (folder / "pair.yaml").write_text(PAIR.replace("project: demo}", "project: demo, labels: {team: x}}"))
    git(folder, "commit", "-q", "-a", "-m", "label")
    with Workspace.open(folder) as files, Workspace.open(folder, revision="HEAD") as commit:
        assert before.repo_id == files.repo_id == commit.repo_id
        assert files.desired().tree == commit.desired().tree != before.desired().tree
        plan = commit.plan()
        assert plan.commit == git(folder, "rev-parse", "HEAD")
        assert [(action.id, action.verb) for action in plan.changes] == [("Session/demo/pair", "update")]
        assert commit.apply(plan, holder="tester").ok
        assert not files.plan().changes


def _lose_and_find(folder: Path) -> None:
    with Workspace.open(folder) as workspace:
        before = workspace.store.recorded("here")
    shutil.rmtree(folder / ".bai")
    with Workspace.open(folder) as workspace:
        assert workspace.rebuild(holder="tester") == ("Session/demo/pair", "Session/demo/sum")
        after = workspace.store.recorded("here")
        for identity, record in after.items():
            old = before[identity]
            assert (record.generation, record.digest, record.kernels) == (
                old.generation,
                old.digest,
                old.kernels,
            )
            assert (record.phase, record.result, record.exit_codes) == (old.phase, old.result, old.exit_codes)
        assert not any(action.id.startswith("Session/") for action in workspace.plan().changes)
        assert workspace.rebuild(holder="tester") == ()


def test_offline_opens_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise AssertionError("a provider was opened")

    monkeypatch.setattr("providers.registry.open_provider", refuse)
    with Workspace.open(folder) as workspace:
        plan = workspace.plan(offline=True)
    assert {action.verb for action in plan.changes} == {"create"}
    assert "hardware unknown" in plan.warnings[0]
    assert not (folder / ".bai").exists()


def test_the_first_commit_does_not_disown_what_runs(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    (folder / "pair.yaml").unlink()
    with Workspace.open(folder) as workspace:
        assert workspace.apply(workspace.plan(), holder="tester").ok
        first = workspace.repo_id
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "cluster.yaml", "sum.yaml")
    git(folder, "commit", "-q", "-m", "all")
    with Workspace.open(folder) as workspace:
        assert workspace.source.repo != first == workspace.repo_id
        assert not workspace.plan().changes
    shutil.rmtree(folder / ".bai")
    with Workspace.open(folder) as workspace:
        assert workspace.rebuild(holder="tester") == ("Session/demo/sum",)
        assert workspace.repo_id == first


def test_a_clone_is_the_same_repository_and_a_folder_with_a_cluster_another(
    folder: Path, tmp_path: Path
) -> None:
    git(folder, "clone", "-q", str(folder), str(tmp_path / "clone"))
    assert open_source(folder).repo == open_source(tmp_path / "clone").repo
    (folder / "sub").mkdir()
    assert open_source(folder / "sub") == open_source(folder)
    (folder / "sub" / "cluster.yaml").write_text("apiVersion: bai/v1\nkind: Cluster\nmetadata: {name: b}\n")
    assert open_source(folder / "sub").repo != open_source(folder).repo


def test_mistakes_are_told(folder: Path) -> None:
    with pytest.raises(CannotRead):
        Workspace.open(folder / "nowhere")
    with pytest.raises(CannotRead):
        Workspace.open(folder, revision="no-such-branch")
    with pytest.raises(PlanError, match="clusters: here"):
        Workspace.open(folder, cluster="there")
    (folder / "more.yaml").write_text(HERE.replace("name: here", "name: there").split("---", maxsplit=1)[0])
    with pytest.raises((PlanError, InvalidRepository)):
        Workspace.open(folder)
    (folder / "more.yaml").unlink()
    (folder / "cluster.yaml").write_text(HERE.split("---", maxsplit=1)[1])
    with pytest.raises((PlanError, InvalidRepository)):
        Workspace.open(folder)


def test_a_repository_that_somebody_else_owns_is_named_not_guessed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a folder to another user needs root")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("SUDO_UID", raising=False)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 12345, 12345, follow_symlinks=False)
    try:
        with pytest.raises(CannotRead, match="somebody else owns"):
            open_source(folder)
    finally:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, 0, 0, follow_symlinks=False)


def test_a_shallow_clone_is_known_by_its_place(folder: Path, tmp_path: Path) -> None:
    (folder / "more.txt").write_text("x")
    git(folder, "add", "more.txt")
    git(folder, "commit", "-q", "-m", "second")
    git(folder, "clone", "-q", "--depth", "1", f"file://{folder}", str(tmp_path / "shallow"))
    assert open_source(tmp_path / "shallow").repo == repository_id_of_path(tmp_path / "shallow")


def test_a_cluster_does_not_go_to_another_provider_with_sessions_running(folder: Path) -> None:
    """The other one would see none of them, and start all a second time."""
    with Workspace.open(folder) as workspace:
        assert workspace.apply(workspace.plan(), holder="tester").ok
    for other in ("{provider: declared}", f"{{provider: process, stateRoot: {folder}/other}}"):
        (folder / "cluster.yaml").write_text(HERE.replace("{provider: process}", other))
        with Workspace.open(folder) as workspace:
            workspace.refresh(holder="tester")
            with pytest.raises(PlanError, match="Session/demo/pair"):
                workspace.plan()
            with pytest.raises(PlanError):
                workspace.plan(PlanOptions(destroy=True))
    (folder / "cluster.yaml").write_text(HERE)
    (folder / "pair.yaml").unlink()
    with Workspace.open(folder) as workspace:
        kernels = workspace.provider.observe().kernels
        pair = [each.state for each in kernels if each.labels.resource == "Session/demo/pair"]
        assert pair == ["running", "running"]
        done = workspace.actual
        until(lambda: done().existing["Session/demo/sum"].result == "success", "the batch session ends")
        assert workspace.apply(workspace.plan(), holder="tester").ok
        assert "Session/demo/pair" not in workspace.store.recorded("here")
    (folder / "cluster.yaml").write_text(HERE.replace("{provider: process}", "{provider: declared}"))
    with Workspace.open(folder) as workspace:
        workspace.plan()
