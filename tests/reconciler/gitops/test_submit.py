"""A document goes into git by itself: whatever else lies about, and whoever pushes in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.gitops.submit import Submission, new_file, removed_file
from schemas.problems.errors.command import AlreadyThere
from schemas.problems.errors.git_remote import NotPushed
from schemas.problems.errors.repository import InvalidRepository
from tests.reconciler.gitops.repositories import Pair, git
from tests.reconciler.lab import BASE, session


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    for key, value in {"NAME": "Ada", "EMAIL": "ada@cluster.example"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{key}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{key}", value)
    made = Pair(tmp_path, {"base.yaml": BASE, "other.yaml": session("other")})
    made.track()
    return made


def submission(pair: Pair, name: str = "mine") -> Submission:
    made = Submission(pair.work, [new_file(pair.work, f"sessions/{name}.yaml", session(name))])
    made.write()
    return made


def test_only_this_file_is_committed(pair: Pair) -> None:
    (pair.work / "other.yaml").write_text(session("other", "priority: 3"))
    (pair.work / "scratch").write_text("mine")
    git(pair.work, "add", "other.yaml")
    done = submission(pair).submit("Run mine")
    assert done.pushed == "origin/main"
    assert git(pair.bare, "show", "--name-only", "--format=%s", "main").split() == [
        "Run", "mine", "sessions/mine.yaml",
    ]  # fmt: skip
    assert git(pair.work, "status", "--porcelain").splitlines() == ["M  other.yaml", "?? scratch"]


def test_somebody_else_pushes_in_between(pair: Pair, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(pair.bare), "theirs")
    theirs = tmp_path / "theirs"
    (theirs / "theirs.yaml").write_text(session("theirs"))
    git(theirs, "add", "--all")
    git(theirs, "commit", "--quiet", "--message", "theirs")
    git(theirs, "push", "--quiet")
    done = submission(pair).submit("Run mine")
    assert git(pair.bare, "log", "--format=%s", "main").splitlines()[:2] == ["Run mine", "theirs"]
    assert done.commit == git(pair.bare, "rev-parse", "main")


def test_a_branch_leaves_everything_here_as_it_is(pair: Pair) -> None:
    before = git(pair.work, "rev-parse", "HEAD")
    made = submission(pair)
    done = made.submit("Run mine", branch="try")
    assert done.pushed == "origin/try"
    assert git(pair.bare, "rev-parse", "try") == done.commit
    assert git(pair.work, "rev-parse", "HEAD") == before == git(pair.bare, "rev-parse", "main")
    assert not (pair.work / "sessions").exists() and not git(pair.work, "status", "--porcelain")


def test_what_is_not_taken_is_taken_back(pair: Pair) -> None:
    hook = pair.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no pushes on Sundays >&2\nexit 1\n")
    hook.chmod(0o755)
    before = git(pair.work, "rev-parse", "HEAD")
    made = submission(pair)
    with pytest.raises(NotPushed):
        made.submit("Run mine")
    assert git(pair.work, "rev-parse", "HEAD") == before
    assert not (pair.work / "sessions").exists() and not git(pair.work, "status", "--porcelain")


def test_documents_that_could_not_be_used_leave_nothing(pair: Pair) -> None:
    made = Submission(
        pair.work, [new_file(pair.work, "sessions/run/bad.yaml", session("bad", "nonsense: 1"))]
    )
    with pytest.raises(InvalidRepository):
        made.write()
    assert not (pair.work / "sessions").exists()


def test_nothing_is_overwritten(pair: Pair) -> None:
    with pytest.raises(AlreadyThere):
        new_file(pair.work, "other.yaml", "")


def test_without_a_remote_it_stays_here(pair: Pair) -> None:
    git(pair.work, "remote", "remove", "origin")
    assert submission(pair).submit("Run mine").pushed == ""


def test_it_is_taken_out_again(pair: Pair) -> None:
    submission(pair).submit("Run mine")
    removal = Submission(pair.work, [removed_file(pair.work, "sessions/mine.yaml")])
    removal.write()
    removal.submit("mine is done")
    assert git(pair.bare, "ls-tree", "-r", "--name-only", "main").split() == ["base.yaml", "other.yaml"]
