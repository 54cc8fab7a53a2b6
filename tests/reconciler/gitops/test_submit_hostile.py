"""What a submission that fails leaves behind: nothing."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.gitops.submit import FileChange, Submission, new_file
from schemas.problems.errors.git_remote import NotPushed
from tests.reconciler.gitops.repositories import Pair, git
from tests.reconciler.gitops.test_submit import pair, submission
from tests.reconciler.lab import session

__all__ = ["pair"]


def refuse(pair: Pair) -> None:
    hook = pair.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not now >&2\nexit 1\n")
    hook.chmod(0o755)


def theirs(pair: Pair, folder: Path) -> None:
    """Somebody else pushes."""
    git(folder, "clone", "--quiet", str(pair.bare), "theirs")
    (folder / "theirs" / "theirs.yaml").write_text(session("theirs"))
    git(folder / "theirs", "add", "--all")
    git(folder / "theirs", "commit", "--quiet", "--message", "theirs")
    git(folder / "theirs", "push", "--quiet")


def test_a_forge_that_refuses_after_somebody_else_pushed(pair: Pair, tmp_path: Path) -> None:
    """What came from the forge meanwhile is no change of ours."""
    theirs(pair, tmp_path)
    refuse(pair)
    with pytest.raises(NotPushed, match="declined"):
        submission(pair).submit("Run mine")
    assert git(pair.work, "status", "--porcelain") == ""
    assert "mine" not in git(pair.work, "log", "--format=%s")
    assert not (pair.work / "sessions" / "mine.yaml").exists()


def test_a_refusal_is_not_tried_again(pair: Pair, tmp_path: Path) -> None:
    refuse(pair)
    counted = tmp_path / "count"
    hook = pair.bare / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\necho x >>{counted}\nexit 1\n")
    with pytest.raises(NotPushed):
        submission(pair).submit("Run mine")
    assert counted.read_text() == "x\n"


def test_a_commit_that_git_refuses_leaves_nothing(pair: Pair) -> None:
    """A document that stays would be run by the next `bai apply`."""
    hook = pair.work / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(NotPushed):
        submission(pair).submit("Run mine")
    assert git(pair.work, "status", "--porcelain") == ""
    assert not (pair.work / "sessions").exists()


def test_a_hook_that_adds_to_messages_hides_no_commit_of_ours(pair: Pair) -> None:
    """As forges ask for that number their reviews."""
    refuse(pair)
    hook = pair.work / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\nprintf "\\nChange-Id: I123\\n" >>"$1"\n')
    hook.chmod(0o755)
    before = git(pair.work, "rev-parse", "HEAD")
    with pytest.raises(NotPushed):
        submission(pair).submit("Run mine")
    assert git(pair.work, "rev-parse", "HEAD") == before
    assert git(pair.work, "status", "--porcelain") == ""


def test_a_file_that_git_ignores_leaves_nothing(pair: Pair) -> None:
    (pair.work / ".git" / "info" / "exclude").write_text("sessions/\n")
    with pytest.raises(NotPushed):
        submission(pair).submit("Run mine")
    assert not (pair.work / "sessions").exists()


def test_somebody_elses_language_does_not_matter(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that speaks German says `zurückgewiesen`; ours is asked to speak English."""
    real = next(path for folder in os.environ["PATH"].split(":") if (path := Path(folder) / "git").is_file())
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\ntest "$LC_ALL" = C || exec 2>/dev/null\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    theirs(pair, tmp_path)
    assert submission(pair).submit("Run mine").pushed == "origin/main"


def test_the_first_commit_of_a_repository(tmp_path: Path, pair: Pair) -> None:
    """No commit to go back to, and none is needed."""
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "--quiet")
    (new / "base.yaml").write_text((pair.work / "base.yaml").read_text())
    made = Submission(new, [new_file(new, "sessions/mine.yaml", session("mine"))])
    made.write()
    done = made.submit("Run mine")
    assert done.pushed == "" and done.commit == git(new, "rev-parse", "HEAD")


@contextlib.contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """Files of this process get no larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_leaves_no_half_document(pair: Pair) -> None:
    with no_room_beyond(40), pytest.raises(OSError):
        submission(pair)
    assert not (pair.work / "sessions").exists()


def test_a_disk_that_is_full_takes_no_document(pair: Pair) -> None:
    before = (pair.work / "other.yaml").read_bytes()
    with no_room_beyond(40), pytest.raises(OSError):
        Submission(pair.work, [FileChange("other.yaml", before, before * 2)]).write()
    assert (pair.work / "other.yaml").read_bytes() == before
    assert git(pair.work, "status", "--porcelain") == ""


def test_a_document_is_not_written_through_a_link(pair: Pair, tmp_path: Path) -> None:
    """Laid by a committer where the next name will be."""
    outside = tmp_path / "outside"
    (pair.work / "sessions").mkdir()
    (pair.work / "sessions" / "mine.yaml").symlink_to(outside)
    with pytest.raises(OSError):
        submission(pair)
    assert not outside.exists() and (pair.work / "sessions" / "mine.yaml").is_symlink()


def test_what_was_committed_but_not_pushed_before_stays(pair: Pair, tmp_path: Path) -> None:
    before = pair.commit({"earlier.yaml": session("earlier")})
    theirs(pair, tmp_path)
    refuse(pair)
    with pytest.raises(NotPushed):
        submission(pair).submit("Run mine")
    assert git(pair.work, "log", "--format=%s").splitlines().count("change") == 1
    assert (pair.work / "earlier.yaml").exists() and before
    assert git(pair.work, "status", "--porcelain") == ""


def test_a_push_that_arrived_though_the_answer_did_not(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop runs it already: who is told that nothing was pushed would do it again."""
    hook = pair.bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nkill -KILL $PPID\n")
    hook.chmod(0o755)
    done = submission(pair).submit("Run mine")
    assert done.pushed == "origin/main"
    assert done.commit == git(pair.bare, "rev-parse", "main") == git(pair.work, "rev-parse", "HEAD")
