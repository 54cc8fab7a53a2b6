"""A remote and a copy at their worst: hung servers, killed processes, full disks, and how little an idle look
costs."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.sources.git_command import GitLogin
from schemas.problems.errors.git_remote import NoSuchRevision, RemoteUnreachable
from tests.harness.processes import having
from tests.reconciler.gitops.repositories import git
from tests.reconciler.gitops.test_revision_tracker import Lab, lab, taken
from tests.waiting import until

pytestmark = pytest.mark.slow

__all__ = ["lab"]
LONG_AGO = time.time() - 3600


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which of git's commands were started by this thread: a loop of a test before may still begin some."""
    found: list[str] = []
    begin, here = subprocess.Popen.__init__, threading.get_ident()

    def noted(self: object, args: object, *rest: object, **named: object) -> None:
        words = list(map(str, args)) if isinstance(args, list | tuple) else [str(args)]
        if Path(words[0]).name == "git" and threading.get_ident() == here:
            commands = ("fetch", "ls-remote", "rev-parse", "rev-list", "fsck", "init", "gc", "merge-base")
            found.append(next((word for word in words if word in commands), "?"))
        begin(self, args, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    return found


def test_a_look_without_news_is_one_question(lab: Lab, asked: list[str]) -> None:
    follow = lab.follow()
    good = taken(follow)
    follow.source(good)
    asked.clear()
    assert taken(follow) == good
    assert follow.source(good).head == good
    assert asked == ["ls-remote"]


def test_so_it_is_while_a_commit_is_held(lab: Lab, asked: list[str]) -> None:
    follow = lab.follow()
    first = taken(follow)
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    assert taken(follow, first) == first
    asked.clear()
    assert taken(follow, first) == first
    assert asked == ["ls-remote"]


def test_a_branch_that_is_gone_does_not_have_the_copy_checked_again_and_again(
    lab: Lab, asked: list[str]
) -> None:
    follow = lab.follow()
    taken(follow)
    git(lab.pair.work, "push", "--quiet", "origin", ":main")
    assert isinstance(follow.select_commit()[1], NoSuchRevision)
    asked.clear()
    assert isinstance(follow.select_commit()[1], NoSuchRevision)
    assert "fsck" not in asked and "fetch" not in asked


def test_whoever_follows_another_branch_of_the_same_copy_gets_its_own(lab: Lab) -> None:
    first = taken(lab.follow())
    second = lab.pair.commit({"b.yaml": "b"})
    lab.pair.push(branch="next")
    assert [taken(lab.follow("next")), taken(lab.follow()), taken(lab.follow("next"))] == [
        second, first, second,
    ]  # fmt: skip


def test_a_rollback_counts_while_the_remote_is_away(lab: Lab) -> None:
    follow = lab.follow()
    before = taken(follow)
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    taken(follow)
    lab.pair.bare.rename(lab.pair.bare.with_name("hidden"))
    commit, error = follow.select_commit(before)
    assert commit == before
    assert isinstance(error, RemoteUnreachable)


@pytest.mark.parametrize("name", ["packed-refs.lock", "refs/heads/main.lock"])
def test_a_lock_that_a_killed_git_left_holds_nobody_up(lab: Lab, name: str) -> None:
    follow = lab.follow()
    taken(follow)
    git(lab.remote.folder, "pack-refs", "--all")
    left = lab.remote.folder / name
    left.parent.mkdir(parents=True, exist_ok=True)
    left.touch()
    os.utime(left, (LONG_AGO, LONG_AGO))
    second = lab.pair.commit({"b.yaml": "b"})
    git(lab.pair.work, "tag", "v1")
    lab.pair.push("--tags")
    assert taken(follow) == second


def test_a_lock_of_a_git_that_may_still_run_is_left(lab: Lab) -> None:
    follow = lab.follow()
    good = taken(follow)
    left = lab.remote.folder / "refs" / "heads" / "main.lock"
    left.touch()
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    commit, error = follow.select_commit()
    assert commit == good and isinstance(error, RemoteUnreachable)
    assert left.exists()


def test_what_a_killed_run_left_half_made_goes(lab: Lab) -> None:
    state = lab.remote.folder.parent
    half = state / ".new-copy-0000"
    (half / "copy").mkdir(parents=True)
    taken(lab.follow())
    assert sorted(path.name for path in state.iterdir()) == ["copy", "copy.lock"]


def test_a_copy_that_was_being_replaced_when_its_maker_died_is_found_again(lab: Lab) -> None:
    """With the remote away, it is the only one that has the last good commit."""
    follow = lab.follow()
    good = taken(follow)
    place = lab.remote.folder.parent / ".new-copy-0000"
    place.mkdir()
    lab.remote.folder.rename(place / "old")
    lab.pair.bare.rename(lab.pair.bare.with_name("hidden"))
    commit, error = RevisionTracker(
        TrackedRef(Remote(lab.remote.url, lab.remote.folder), "main"), lab.kept, "here"
    ).select_commit()
    assert commit == good and isinstance(error, RemoteUnreachable)


def test_a_place_that_cannot_be_written_to_is_told(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remote = Remote(str(lab.pair.bare), tmp_path / "file" / "copy")
    with pytest.raises(RemoteUnreachable, match="copy"):
        remote.fetch("main")
    with pytest.raises(RemoteUnreachable, match="copy"):
        remote.repair()


def test_a_disk_that_is_full_is_told_and_passes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(RemoteUnreachable, match=r"no space left"):
        lab.remote.fetch("main")
    monkeypatch.undo()
    assert taken(lab.follow())


def test_the_name_of_the_main_branch_survives_a_disk_that_is_full(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.remote.default_branch() == "main"

    def full(self: Path, *_: object, **__: object) -> int:
        with open(self, "w"):
            raise OSError(28, "No space left on device")

    git(lab.pair.bare, "branch", "trunk", "main")
    git(lab.pair.bare, "symbolic-ref", "HEAD", "refs/heads/trunk")
    monkeypatch.setattr(Path, "write_text", full)
    assert lab.remote.default_branch() == "trunk"
    monkeypatch.undo()
    lab.pair.bare.rename(lab.pair.bare.with_name("hidden"))
    assert lab.remote.default_branch() in ("main", "trunk")


@contextmanager
def silent() -> Iterator[int]:
    """The port of a server that takes every connection and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        taken_in: list[socket.socket] = []
        over = threading.Event()

        def accept() -> None:
            server.settimeout(0.1)
            while not over.is_set():
                try:
                    taken_in.append(server.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            thread.join()
            for each in taken_in:
                each.close()


def test_a_server_that_hangs_leaves_no_process_behind(tmp_path: Path) -> None:
    with silent() as port:
        url = f"http://127.0.0.1:{port}/hung-{tmp_path.name}.git"
        with pytest.raises(RemoteUnreachable, match="no answer within"):
            Remote(url, tmp_path / "copy").fetch("main", timeout=2)
        until(lambda: not having(url), lambda: f"gone: {having(url)}")


def test_a_server_that_hangs_in_the_middle_leaves_the_copy_whole(lab: Lab, tmp_path: Path) -> None:
    """The one that speaks ssh is a program that gives the list and then stays silent."""
    good = taken(lab.follow())
    hung = tmp_path / f"hung-{tmp_path.name}"
    hung.write_text("#!/bin/sh\nsleep 1000\nexit 1\n")
    hung.chmod(0o755)
    os.environ["GIT_SSH_COMMAND"] = str(hung)
    try:
        remote = Remote("ssh://forge.example/x.git", lab.remote.folder)
        with pytest.raises(RemoteUnreachable, match="no answer within"):
            remote.fetch("main", timeout=2)
    finally:
        del os.environ["GIT_SSH_COMMAND"]
    until(lambda: not having(str(hung)), lambda: f"gone: {having(str(hung))}")
    assert taken(lab.follow()) == good


def test_many_pushes_do_not_make_the_copy_grow_without_bounds(lab: Lab) -> None:
    """Packs and loose objects become one pack now and then, and nothing that was ever fetched is lost."""
    follow = lab.follow()
    first = taken(follow)
    for number in range(3):
        git(lab.pair.work, "checkout", "--quiet", "main") if number else None
        lab.pair.commit({f"f{each}.yaml": f"{number} {each}" for each in range(60)})
        lab.pair.push()
        last = taken(follow)
    assert len(_pieces(lab.remote)) > 2
    lab.remote.pack_objects(loose=16, packs=2)
    assert len(_pieces(lab.remote)) == 1
    assert lab.remote.has_commit(first) and lab.remote.has_commit(last)


def _pieces(remote: Remote) -> list[Path]:
    objects = remote.folder / "objects"
    return [*objects.glob("??/*"), *objects.glob("pack/*.pack")]


def test_what_a_forced_push_threw_away_survives_tidying(lab: Lab) -> None:
    follow = lab.follow()
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    thrown = taken(follow)
    git(lab.pair.work, "reset", "--quiet", "--hard", "HEAD~1")
    lab.pair.commit({f"f{each}.yaml": str(each) for each in range(60)})
    lab.pair.push("--force")
    follow.select_commit()
    lab.remote.pack_objects(loose=1, packs=1)
    assert lab.remote.has_commit(thrown)


def test_history_that_cannot_be_read_in_time_is_not_called_rewritten(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconciler.gitops import remote

    follow = lab.follow()
    good = taken(follow)
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    real = remote.run_git

    def slow(login: GitLogin, url: str, *words: str, **named: Any) -> Any:
        if words[0] == "merge-base":
            return subprocess.CompletedProcess(words, 124, "", "no answer within 120 s")
        return real(login, url, *words, **named)

    monkeypatch.setattr(remote, "run_git", slow)
    commit, error = follow.select_commit()
    assert commit == good and isinstance(error, RemoteUnreachable)
