"""`bai cancel`, `hold`, `release`, `priority`: what becomes of files, of git, of the remote, of the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bai.conftest import CLUSTER, WHO, Repo
from tests.bai.test_gitops import House
from tests.reconciler.gitops.repositories import Pair, git
from tests.waiting import until

pytestmark = pytest.mark.slow

SWEEP = """\
apiVersion: bai/v1
kind: SessionTemplate
metadata: {name: trainer}
spec:
  parameters: {lr: {type: number}}
  session: {type: batch, command: [echo, "{{ lr }}"], priority: 3, hold: true}
---
apiVersion: bai/v1
kind: Sweep
metadata: {name: grid, project: demo}
spec: {template: trainer, over: {lr: [1, 2]}}
---
apiVersion: bai/v1
kind: Session
metadata: {name: filled, project: demo}
spec:
  # of the template
  from: {template: trainer, parameters: {lr: 3}}
"""
HEAD = "apiVersion: bai/v1\nkind: Session\n"


def one(name: str, more: str = "") -> str:
    head = f"{HEAD}metadata: {{name: {name}, project: demo}}\n"
    return f"{head}spec: {{command: [sleep, '9']{more}}}  # as it is\n"


class Desk:
    """A working copy with the command, and the remote that it pushes to."""

    def __init__(self, repo: Repo, folder: Path) -> None:
        self.pair = Pair(folder)
        self.repo = Repo(self.pair.work, {**repo.env, **WHO})
        many = "---\n".join(one(name) for name in ("a", "b", "c"))
        self.pair.commit(
            {"cluster.yaml": CLUSTER, "one.yaml": one("one"), "many.yaml": many, "s.yaml": SWEEP}
        )
        self.pair.push("--set-upstream")

    def text(self, name: str) -> str:
        return (self.pair.work / name).read_text()

    def pushed(self, name: str, branch: str = "main") -> str:
        return git(self.pair.bare, "show", f"{branch}:{name}") + "\n"

    def log(self) -> list[str]:
        return git(self.pair.bare, "log", "--format=%s", "main").splitlines()

    def is_untouched(self) -> bool:
        return not git(self.pair.work, "status", "--porcelain") and self.log() == ["change"]


@pytest.fixture
def desk(repo: Repo, tmp_path: Path) -> Desk:
    return Desk(repo, tmp_path / "desk")


def test_a_cancelled_session_leaves_git_by_a_commit_of_its_own(desk: Desk) -> None:
    said = desk.repo.ok("cancel", "one").out
    assert not (desk.pair.work / "one.yaml").exists()
    assert desk.log() == ["Cancel Session/demo/one", "change"]
    assert git(desk.pair.bare, "log", "-1", "--format=%an %ae", "main") == "Ada ada@cluster.example"
    assert "pushed to origin/main" in said and "`bai apply`" in said
    assert "demo/one" not in desk.repo.ok("plan", "--offline").out


def test_no_empty_folder_is_left_but_what_else_is_in_it_stays(desk: Desk) -> None:
    desk.pair.commit({"deep/er/x.yaml": one("x"), "deep/y.yaml": one("y")})
    desk.pair.push()
    desk.repo.ok("cancel", "x", "--branch", "gone")
    assert desk.text("deep/er/x.yaml") == one("x") and not git(desk.pair.work, "status", "--porcelain")
    desk.repo.ok("cancel", "x")
    assert not (desk.pair.work / "deep" / "er").exists() and desk.text("deep/y.yaml") == one("y")
    (desk.pair.work / "deep" / "notes").write_text("mine")
    desk.repo.ok("cancel", "y")
    assert [path.name for path in (desk.pair.work / "deep").iterdir()] == ["notes"]


def test_of_a_file_of_several_exactly_its_document_goes(desk: Desk) -> None:
    before = desk.text("many.yaml").split("---\n")
    desk.repo.ok("cancel", "demo/b")
    assert desk.text("many.yaml") == before[0] + "---\n" + before[2] == desk.pushed("many.yaml")
    desk.repo.ok("cancel", "a", "c", "one")
    assert not (desk.pair.work / "many.yaml").exists() and not (desk.pair.work / "one.yaml").exists()
    assert desk.log()[0] == "Cancel Session/demo/a, Session/demo/c, Session/demo/one"


def test_what_a_sweep_makes_is_changed_there(desk: Desk) -> None:
    for words in (("cancel", "grid-1"), ("release", "one", "grid-2"), ("priority", "grid-1", "5")):
        said = desk.repo(*words)
        assert said.code == 1 and "Sweep/demo/grid makes it, at s.yaml:8:1" in said.err + said.out
    assert desk.is_untouched()


def test_names_that_mean_nothing_change_nothing(desk: Desk) -> None:
    said = desk.repo("cancel", "one", "oone")
    assert said.code == 1 and "did you mean Session/demo/one?" in said.err
    said = desk.repo("--revision", "HEAD", "hold", "one")
    assert said.code == 1 and "--revision" in said.err
    assert desk.is_untouched()


def test_a_session_that_only_runs_is_not_in_git_any_more(desk: Desk) -> None:
    desk.repo.session("late", "sleep", "1000")
    try:
        desk.repo.ok("apply", "--yes", "--target", "Session/demo/late")
        (desk.pair.work / "late.yaml").unlink()
        said = desk.repo("cancel", "late")
        assert said.code == 1 and "demo/late is not in the documents any more" in said.err
        assert "bai apply" in said.err
    finally:
        desk.repo.ok("destroy", "--yes")


def test_a_protected_session_is_not_cancelled(desk: Desk) -> None:
    text = one("guarded").replace("project: demo", 'project: demo, annotations: {bai/protect: "true"}')
    desk.pair.commit({"guarded.yaml": text})
    said = desk.repo("cancel", "guarded", "one")
    assert said.code == 1 and "protected" in said.err and "demo/guarded" in said.err
    assert (desk.pair.work / "one.yaml").exists() and desk.text("guarded.yaml") == text


def test_who_is_needed_is_not_cancelled(desk: Desk) -> None:
    desk.pair.commit({"after.yaml": one("after", ", dependsOn: [Session/demo/one]")})
    said = desk.repo("cancel", "one")
    assert said.code == 1 and "after.yaml:4" in said.err
    assert desk.text("one.yaml") == one("one") and not git(desk.pair.work, "status", "--porcelain")


def test_held_and_released_without_a_trace(desk: Desk) -> None:
    before = desk.text("many.yaml")
    said = desk.repo.ok("hold", "b", "a").out
    assert desk.text("many.yaml") == before.replace("spec: {", "spec: {hold: true, ", 2)
    assert desk.log()[0] == "Hold Session/demo/b, Session/demo/a" and "out of the queue" in said
    plan = desk.repo.ok("plan", "--offline", "--format", "json").json["plan"]
    held = {wait["session"] for wait in plan["waits"] if wait["reasons"][0]["code"] == "held"}
    assert {"Session/demo/a", "Session/demo/b"} <= held and "Session/demo/c" not in held
    again = desk.repo.ok("hold", "a")
    assert "is held already" in again.out and len(desk.log()) == 2
    desk.repo.ok("release", "a", "b")
    assert desk.text("many.yaml") == before == desk.pushed("many.yaml")
    assert "is not held" in desk.repo.ok("release", "a").out and len(desk.log()) == 3


def test_what_a_template_holds_is_released_by_a_word_of_its_own(desk: Desk) -> None:
    desk.repo.ok("release", "filled")
    assert desk.text("s.yaml") == SWEEP + "  hold: false\n"
    desk.repo.ok("priority", "filled", "700")
    assert desk.text("s.yaml") == SWEEP + "  priority: 700\n  hold: false\n"
    assert "has priority 700 already" in desk.repo.ok("priority", "filled", "700").out


def test_a_branch_changes_nothing_here(desk: Desk) -> None:
    said = desk.repo.ok("priority", "one", "50", "--branch", "sooner").out
    assert desk.pushed("one.yaml", "sooner") == one("one").replace("{command", "{priority: 50, command")
    assert desk.is_untouched() and "origin/sooner is merged" in said
    desk.repo.ok("cancel", "one", "--branch", "gone")
    assert "one.yaml" not in git(desk.pair.bare, "ls-tree", "-r", "--name-only", "gone")
    assert desk.is_untouched() and desk.text("one.yaml") == one("one")


def test_without_a_push_it_is_for_bai_apply(desk: Desk) -> None:
    said = desk.repo.ok("hold", "one", "--no-push").out
    assert (
        desk.log() == ["change"]
        and git(desk.pair.work, "log", "-1", "--format=%s") == "Hold Session/demo/one"
    )
    assert said.splitlines()[-1].startswith("`bai apply`")
    said = desk.repo("hold", "a", "--no-push", "--branch", "x").err
    assert "--branch" in said


def test_other_changes_are_not_swept_along(desk: Desk) -> None:
    (desk.pair.work / "many.yaml").write_text(desk.text("many.yaml") + "# mine\n")
    (desk.pair.work / "new.yaml").write_text(one("new"))
    git(desk.pair.work, "add", "new.yaml")
    desk.repo.ok("cancel", "one")
    assert git(desk.pair.bare, "show", "--name-only", "--format=", "main") == "one.yaml"
    assert git(desk.pair.work, "diff", "--name-only") == "many.yaml"
    assert git(desk.pair.work, "diff", "--name-only", "--cached") == "new.yaml"
    assert desk.text("many.yaml").endswith("# mine\n")


@pytest.mark.parametrize("words", [("cancel", "a"), ("hold", "a"), ("priority", "a", "9")])
def test_a_file_with_changes_of_ones_own_is_left_alone(desk: Desk, words: tuple[str, ...]) -> None:
    text = desk.text("many.yaml") + "# mine\n"
    (desk.pair.work / "many.yaml").write_text(text)
    said = desk.repo(*words)
    assert said.code == 1 and "many.yaml has changes that are not committed" in said.err
    assert desk.text("many.yaml") == text and desk.log() == ["change"]
    (desk.pair.work / "new.yaml").write_text(one("new"))
    said = desk.repo("cancel", "new")
    assert said.code == 1 and (desk.pair.work / "new.yaml").exists()


def test_a_name_that_is_a_pattern_means_its_file_alone(desk: Desk) -> None:
    """A committer chose it so that other people's changes go along."""
    desk.pair.commit({"[o]*.yaml": one("trap"), "other.yaml": one("other")})
    (desk.pair.work / "other.yaml").write_text(one("other", ", priority: 7"))
    desk.repo.ok("cancel", "trap")
    assert git(desk.pair.bare, "show", "--name-only", "--format=", "main") == "[o]*.yaml"
    assert "priority: 7" in desk.text("other.yaml")


def test_somebody_else_pushes_in_between(desk: Desk, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(desk.pair.bare), "theirs")
    theirs = tmp_path / "theirs"
    (theirs / "theirs.yaml").write_text(one("theirs"))
    (theirs / "many.yaml").write_text(desk.text("many.yaml").replace("name: c", "name: d"))
    git(theirs, "commit", "--all", "--quiet", "--message", "d")
    git(theirs, "add", "--all")
    git(theirs, "commit", "--quiet", "--message", "theirs")
    git(theirs, "push", "--quiet")
    desk.repo.ok("hold", "a")
    assert desk.log() == ["Hold Session/demo/a", "theirs", "d", "change"]
    assert "hold: true" in desk.pushed("many.yaml") and "name: d" in desk.pushed("many.yaml")


def test_what_the_remote_refuses_is_taken_back(desk: Desk, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(desk.pair.bare), "theirs")
    (tmp_path / "theirs" / "one.yaml").write_text(one("one") + "# theirs\n")
    git(tmp_path / "theirs", "commit", "--all", "--quiet", "--message", "theirs")
    git(tmp_path / "theirs", "push", "--quiet")
    hook = desk.pair.bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not now >&2\nexit 1\n")
    hook.chmod(0o755)
    for words in (("cancel", "a", "b", "c"), ("hold", "a"), ("cancel", "one")):
        said = desk.repo(*words)
        assert said.code == 1 and "Nothing was committed or pushed" in said.err
        assert not git(desk.pair.work, "status", "--porcelain")
        assert (desk.pair.work / "one.yaml").exists()


def test_without_git_the_files_are_changed(repo: Repo) -> None:
    repo.write("one.yaml", one("one"))
    said = repo.ok("hold", "one").out
    assert (repo.root / "one.yaml").read_text() == one("one").replace("{command", "{hold: true, command")
    assert "no git repository" in said and "`bai apply`" in said
    repo.ok("cancel", "one")
    assert not (repo.root / "one.yaml").exists()


def test_what_cannot_be_changed_safely_is_said(desk: Desk) -> None:
    desk.pair.commit({"odd.yaml": one("odd").replace("spec: {", "spec: &spec {")})
    said = desk.repo("hold", "odd")
    assert said.code == 1 and "odd.yaml" in said.err and "by hand" in said.err
    assert not git(desk.pair.work, "status", "--porcelain")


def test_a_session_that_runs_goes_on(desk: Desk) -> None:
    desk.repo.session("up", "sleep", "1000")
    desk.pair.commit({})
    try:
        desk.repo.ok("apply", "--yes", "--target", "Session/demo/up")
        assert "runs already, and goes on" in desk.repo.ok("hold", "up").out
        desk.repo.ok("apply", "--yes", "--target", "Session/demo/up")
        [found] = desk.repo.ok("get", "up", "--format", "json").json["items"]
        assert found["phase"] == "RUNNING" and found["generation"] == 1
    finally:
        desk.repo.ok("destroy", "--yes")


def test_held_sessions_are_shown_as_such(desk: Desk) -> None:
    desk.repo.ok("hold", "one")
    try:
        desk.repo.ok("apply", "--yes", "--target", "Session/demo/one")
        assert "held by its document" in desk.repo.ok("get", "one").out
        assert "held by its document" in desk.repo.ok("explain", "one").out
        assert desk.repo.ok("status", "--format", "json").json["queue"] == {"held": 1}
    finally:
        desk.repo.ok("destroy", "--yes")


def test_a_loop_takes_it_up(repo: Repo, tmp_path: Path) -> None:
    """From the command to the processes: held it is not started, released it is, cancelled it is stopped."""
    house = House(repo, tmp_path / "house")
    try:
        text = one("one", ", hold: true, resources: {cpu: 100m, memory: 64MiB}")
        house.push("one", text=text.replace("sleep, '9'", "sleep, '1000'"))
        house.start()
        until(lambda: "held by its document" in house.bai("get", "one"), "it waits")
        house.repo.ok("release", "one")
        until(lambda: "RUNNING" in house.bai("get", "one"), "it runs")
        house.repo.ok("cancel", "one")
        until(lambda: "RUNNING" not in house.bai("get"), "it is stopped")
        found = house.bai("report", "usage", "--since", "1h", "--by", "session", "-o", "csv")
        assert found.splitlines()[1].startswith("Session/demo/one,1,1,")
        house.stop()
    finally:
        house.close()


def push_of_somebody_else(desk: Desk, folder: Path, name: str, text: str | None) -> None:
    git(folder, "clone", "--quiet", str(desk.pair.bare), "theirs")
    path = folder / "theirs" / name
    path.unlink() if text is None else path.write_text(text)
    git(folder / "theirs", "commit", "--all", "--quiet", "--message", "theirs")
    git(folder / "theirs", "push", "--quiet")


def test_somebody_else_has_changed_the_same_document(desk: Desk, tmp_path: Path) -> None:
    push_of_somebody_else(desk, tmp_path, "one.yaml", one("one", ", priority: 3"))
    for words in (("cancel", "one"), ("priority", "one", "5")):
        said = desk.repo(*words)
        assert said.code == 1 and "Nothing was committed or pushed" in said.err
    assert desk.text("one.yaml") == one("one") and not git(desk.pair.work, "status", "--porcelain")
    assert desk.log() == ["theirs", "change"]


def test_somebody_else_has_cancelled_it_meanwhile(desk: Desk, tmp_path: Path) -> None:
    push_of_somebody_else(desk, tmp_path, "one.yaml", None)
    assert desk.repo.ok("cancel", "one").out
    assert desk.log() == ["theirs", "change"] and not (desk.pair.work / "one.yaml").exists()
    assert not git(desk.pair.work, "status", "--porcelain")
