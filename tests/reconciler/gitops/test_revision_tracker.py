"""A copy follows its remote; whatever happens to either, the last good commit stays."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pytest

from reconciler.gitops import remote
from reconciler.gitops.remote import Remote, redact_url
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.sources import git_command
from reconciler.sources.git_command import GitLogin
from reconciler.sources.source import open_source
from schemas.problems.errors.git_remote import HistoryRewritten, NoSuchRevision, RemoteUnreachable
from tests.reconciler.gitops.repositories import Pair, git
from tests.waiting import until


class Memory(dict[str, str]):
    meta = dict.get
    set_meta = dict.__setitem__


class Lab:
    def __init__(self, folder: Path) -> None:
        self.pair = Pair(folder, {"a.yaml": "a"})
        self.remote = Remote(str(self.pair.bare), folder / "state" / "copy")
        self.kept = Memory()

    def follow(self, ref: str = "main", subpath: str = "", cluster: str = "here") -> RevisionTracker:
        return RevisionTracker(TrackedRef(self.remote, ref, subpath), self.kept, cluster)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def taken(follow: RevisionTracker, named: str = "") -> str:
    """What counts now, accepted, as the loop does it; fails when anything is wrong."""
    commit, error = follow.select_commit(named)
    assert error is None, error
    follow.accept(commit)
    return commit


def test_a_push_is_followed(lab: Lab) -> None:
    follow = lab.follow()
    first = taken(follow)
    second = lab.pair.commit({"b.yaml": "b"})
    assert taken(follow) == first
    lab.pair.push()
    assert taken(follow) == second
    assert lab.remote.default_branch() == "main"


def test_branch_tag_or_commit(lab: Lab) -> None:
    first = git(lab.pair.work, "rev-parse", "HEAD")
    git(lab.pair.work, "tag", "--annotate", "--message", "a release", "v1")
    git(lab.pair.work, "push", "--quiet", "origin", "v1")
    second = lab.pair.commit({"b.yaml": "b"})
    lab.pair.push(branch="next")
    assert [taken(lab.follow(ref)) for ref in ("main", "v1", "next", first)] == [first, first, second, first]


@pytest.mark.parametrize("ref", ["nothing", "--upload-pack=touch /tmp/x", "", "main~0"])
def test_a_revision_that_is_not_there(lab: Lab, ref: str) -> None:
    with pytest.raises(NoSuchRevision):
        lab.follow(ref).select_commit()


def test_it_is_the_repository_that_a_clone_is(lab: Lab) -> None:
    """Whoever applies from a working copy owns the same kernels."""
    lab.pair.commit({"clusters/one/a.yaml": "a"})
    lab.pair.push()
    follow = lab.follow(subpath="clusters/one/")
    far = follow.source(follow.select_commit()[0])
    near = open_source(lab.pair.work / "clusters" / "one")
    assert (far.repo, far.subpath, far.head) == (near.repo, near.subpath, near.head)


def test_a_remote_that_is_gone_leaves_the_last_good_commit(lab: Lab) -> None:
    follow = lab.follow()
    good = taken(follow)
    hidden = lab.pair.bare.rename(lab.pair.bare.with_name("hidden"))
    commit, error = follow.select_commit()
    assert commit == good
    assert isinstance(error, RemoteUnreachable) and error.retryable
    hidden.rename(lab.pair.bare)
    assert taken(follow) == good


def test_a_remote_that_was_never_there(tmp_path: Path) -> None:
    remote = Remote(str(tmp_path / "nothing"), tmp_path / "copy")
    with pytest.raises(RemoteUnreachable, match="nothing"):
        RevisionTracker(TrackedRef(remote, "main"), Memory(), "here").select_commit()


def test_history_that_was_rewritten_is_not_followed(lab: Lab) -> None:
    follow = lab.follow()
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    good = taken(follow)
    git(lab.pair.work, "reset", "--quiet", "--hard", "HEAD~1")
    other = lab.pair.commit({"c.yaml": "c"})
    lab.pair.push("--force")
    commit, error = follow.select_commit()
    assert commit == good
    assert isinstance(error, HistoryRewritten) and other[:12] in error.hint
    # What nobody refers to any more is still there, also after git has tidied up.
    git(lab.remote.folder, "gc", "--quiet", "--prune=now")
    assert follow.select_commit()[0] == good
    assert taken(follow, other) == other
    assert taken(follow) == other


def test_a_branch_that_was_deleted(lab: Lab) -> None:
    follow = lab.follow()
    good = taken(follow)
    git(lab.pair.work, "push", "--quiet", "origin", ":main")
    commit, error = follow.select_commit()
    assert commit == good and isinstance(error, NoSuchRevision)


@pytest.mark.parametrize("what", ["objects", "HEAD", "all", "packs"])
def test_a_damaged_copy_is_made_anew(lab: Lab, what: str) -> None:
    follow = lab.follow()
    good = taken(follow)
    copy = lab.remote.folder
    if what == "objects":
        shutil.rmtree(copy / "objects")
    elif what == "HEAD":
        (copy / "HEAD").write_text("nonsense")
    elif what == "all":
        shutil.rmtree(copy)
    else:
        for path in (copy / "objects").rglob("*"):
            if path.is_file():
                path.chmod(0o644)
                path.write_bytes(b"\0" * 8)
    assert taken(follow) == good
    assert sorted(path.name for path in copy.parent.iterdir()) == [copy.name, f"{copy.name}.lock"]


def test_a_damaged_copy_is_kept_while_the_remote_is_away(lab: Lab) -> None:
    follow = lab.follow()
    good = taken(follow)
    (lab.remote.folder / "HEAD").write_text("nonsense")
    hidden = lab.pair.bare.rename(lab.pair.bare.with_name("hidden"))
    with pytest.raises(RemoteUnreachable):
        follow.select_commit()
    assert list((lab.remote.folder / "objects").iterdir())
    hidden.rename(lab.pair.bare)
    assert taken(follow) == good


def test_a_blob_that_is_lost_is_fetched_again(lab: Lab) -> None:
    """git itself notices nothing: the commit is there."""
    follow = lab.follow()
    good = taken(follow)
    assert not lab.remote.repair()
    name = git(lab.remote.folder, "rev-parse", f"{good}:a.yaml")
    lost = lab.remote.folder / "objects" / name[:2] / name[2:]
    if not lost.exists():
        git(lab.remote.folder, "config", "--unset-all", "core.bare")
        for pack in list((lab.remote.folder / "objects" / "pack").glob("*.pack")):
            moved = pack.rename(lab.remote.folder / pack.name)
            with moved.open("rb") as file:
                subprocess.run(
                    ["git", "--git-dir", str(lab.remote.folder), "unpack-objects", "-q"],
                    stdin=file,
                    check=True,
                )
    lost.unlink()
    assert taken(follow) == good
    assert lab.remote.repair()
    assert git(lab.remote.folder, "cat-file", "blob", name) == "a"


def test_a_copy_made_anew_keeps_what_the_remote_has_forgotten(lab: Lab) -> None:
    follow = lab.follow()
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    good = taken(follow)
    git(lab.pair.work, "reset", "--quiet", "--hard", "HEAD~1")
    lab.pair.push("--force")
    git(lab.pair.bare, "gc", "--quiet", "--prune=now")
    (lab.remote.folder / "refs" / "heads" / "main").write_text("1" * 40 + "\n")
    commit, error = follow.select_commit()
    assert commit == good and isinstance(error, HistoryRewritten)


def test_history_that_is_lost_altogether_is_not_followed_by_itself(lab: Lab) -> None:
    follow = lab.follow()
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    taken(follow)
    git(lab.pair.work, "reset", "--quiet", "--hard", "HEAD~1")
    other = lab.pair.commit({"c.yaml": "c"})
    lab.pair.push("--force")
    shutil.rmtree(lab.remote.folder)
    with pytest.raises(HistoryRewritten):
        follow.select_commit()
    assert taken(follow, other) == other


def test_the_main_branch_is_remembered(lab: Lab) -> None:
    git(lab.pair.bare, "symbolic-ref", "HEAD", "refs/heads/main")
    assert lab.remote.default_branch() == "main"
    lab.pair.bare.rename(lab.pair.bare.with_name("hidden"))
    assert lab.remote.default_branch() == "main"
    with pytest.raises(RemoteUnreachable):
        Remote(str(lab.pair.bare), lab.remote.folder.with_name("other")).default_branch()


def test_many_ask_for_one_copy_at_once(lab: Lab) -> None:
    good = git(lab.pair.work, "rev-parse", "HEAD")
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: lab.remote.fetch("main"), range(8))) == {good}


def test_who_asks_slowly_does_not_take_a_branch_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads; the first is held up while it has what the branch was, and somebody pushes."""
    waits, real_lock = threading.Event(), fcntl.flock
    second: list[str] = []
    faster = threading.Thread(target=lab.remote.fetch, args=("main",))

    def lock(file: IO[str], how: int) -> None:
        try:
            real_lock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            waits.set()
            real_lock(file, how)

    def run_git(login: GitLogin, url: str, *words: str, **named: Any) -> subprocess.CompletedProcess[str]:
        done = git_command.run_git(login, url, *words, **named)
        if words[0] == "rev-parse" and not second:
            second.append(lab.pair.commit({"b.yaml": "b"}))
            lab.pair.push()
            faster.start()
            until(lambda: waits.is_set() or not faster.is_alive(), "the other thread waits, or is through")
        return done

    monkeypatch.setattr(remote, "run_git", run_git)
    monkeypatch.setattr(fcntl, "flock", lock)
    lab.remote.fetch("main")
    faster.join()
    assert [lab.remote.fetch("main")] == second


def test_another_commit_can_be_named(lab: Lab) -> None:
    follow = lab.follow()
    first = taken(follow)
    second = lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    assert taken(follow) == second
    assert taken(follow, first) == first
    assert taken(follow) == second
    with pytest.raises(NoSuchRevision):
        RevisionTracker(TrackedRef(lab.remote, "main"), Memory(), "here").select_commit("1" * 40)


def test_nothing_of_the_repository_is_run(lab: Lab, tmp_path: Path) -> None:
    hook = lab.pair.bare / "hooks" / "post-upload-pack"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    lab.pair.commit({".gitmodules": f'[submodule "x"]\npath = x\nurl = ext::sh -c "touch {tmp_path}/ran"\n'})
    lab.pair.push()
    taken(lab.follow())
    with pytest.raises(RemoteUnreachable):
        Remote(f"ext::sh -c touch% {tmp_path}/ran", tmp_path / "other").fetch("main")
    assert not (tmp_path / "ran").exists()


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    assert redact_url("https://ada:secret@forge.example/x.git") == "https://forge.example/x.git"
    login = GitLogin("ada", "secret")
    assert "secret" not in repr(login)
    with pytest.raises(RemoteUnreachable) as caught:
        Remote("http://ada:secret@127.0.0.1:1/x.git", tmp_path / "copy", login).fetch("main", timeout=20)
    assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_each_cluster_has_its_good_commit_when_the_copy_is_made_anew(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = lab.follow(cluster="here"), lab.follow(cluster="there")
    lab.pair.commit({"b.yaml": "b"})
    lab.pair.push()
    old = taken(here)
    git(lab.pair.work, "reset", "--quiet", "--hard", "HEAD~1")
    lab.pair.commit({"c.yaml": "c"})
    lab.pair.push("--force")
    new = taken(there)
    monkeypatch.setattr(Remote, "_is_intact", lambda *_, **__: False)
    assert lab.remote.repair()
    assert (here.last_good_commit, there.last_good_commit) == (old, new)
