"""Git is run in one place: no longer, with no more to say than was asked, and with nobody's programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from schemas.files.git_objects import resolve_commit
from schemas.files.git_process import CANNOT_RUN, TOO_MUCH, TOO_SLOW, ask_git, execute_git, git_lines
from schemas.files.git_source import CommitSource
from schemas.problems.errors.repository import CannotRead
from tests.reconciler.gitops.repositories import git
from tests.waiting import until


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return made(tmp_path / "work")


def made(folder: Path, *options: str) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", *options)
    (folder / "a.yaml").write_text("a: 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "x")
    return folder


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is run in git's place."""
    place = tmp_path / "bin" / "git"
    place.parent.mkdir()
    place.touch(0o755)
    monkeypatch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")
    return place


def test_what_hangs_is_ended_with_all_that_it_started(program: Path, tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    program.write_text(f"#!/bin/sh\nexec 9>{held}\nsleep 100000 &\necho up >&9\nwait\n")
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)

    def read() -> bytes | None:
        """None while somebody could still write there, such as who is being killed."""
        try:
            return os.read(reader, 9)
        except BlockingIOError:
            return None

    try:
        # On a busy machine it may not have come so far.
        for timeout in (1, 4, 16, 64):
            done = execute_git("fetch", timeout=timeout)
            assert done.returncode == TOO_SLOW and done.stderr == f"no answer within {timeout} s".encode()
            if said := read():
                break
        assert said == b"up\n"
        # A number of a process may be another one's.
        until(lambda: read() == b"", "what it started has ended")
    finally:
        os.close(reader)


def test_who_talks_on_is_not_listened_to(program: Path) -> None:
    program.write_text("#!/bin/sh\nexec yes\n")
    done = execute_git("log", limit=1 << 20)
    assert (done.returncode, done.stdout) == (TOO_MUCH, b"")
    with pytest.raises(CannotRead, match="more than 64 MiB"):
        ask_git(Path("/"), "log", what="it")


def test_of_its_errors_the_end_is_kept(program: Path) -> None:
    program.write_text("#!/bin/sh\nseq 1 100000 >&2\necho why >&2\nexit 3\n")
    done = execute_git("fetch")
    assert done.returncode == 3 and done.stderr.endswith(b"\nwhy\n") and len(done.stderr) <= 1 << 16


def test_it_is_not_there(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert execute_git("version").returncode == CANNOT_RUN
    assert git_lines(repository, "status") is None
    with pytest.raises(CannotRead, match="git cannot be run: No such file"):
        CommitSource(repository, "HEAD")


def test_much_is_asked_and_much_is_said(repository: Path) -> None:
    """More than a pipe holds, both ways."""
    name = git(repository, "rev-parse", "HEAD:a.yaml")
    asked = f"{name}\n".encode() * 4000
    said = ask_git(repository, "cat-file", "--batch", what="it", data=asked)
    assert said.count(b"a: 1\n") == 4000 and min(len(asked), len(said)) > 2 * 65_536


@pytest.mark.parametrize("as_user", [True, False])
def test_programs_that_a_repository_names(repository: Path, tmp_path: Path, as_user: bool) -> None:
    """Who submits runs his own hooks; who looks runs nobody's."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    shutil.copy(program, hook)
    (repository / "a.yaml").touch()
    execute_git("status", "--porcelain", folder=repository, as_user=as_user)
    assert ran.exists() == as_user


def test_another_repository_in_the_environment(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git sets it for what it runs when somebody pushes."""
    other = made(tmp_path / "other", "-b", "elsewhere")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git" / "objects"))
    monkeypatch.setenv("GIT_COMMON_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_NAMESPACE", "x")
    (source,) = CommitSource(repository, "HEAD").files()
    assert source.data == b"a: 1\n"


def test_longer_names(tmp_path: Path) -> None:
    folder = made(tmp_path / "work", "--object-format=sha256")
    source = CommitSource(folder, "HEAD")
    assert len(source.commit) == 64
    assert [file.data for file in source.files()] == [b"a: 1\n"]


def test_a_folder_that_is_not_utf8(tmp_path: Path) -> None:
    folder = made(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    assert git_lines(folder, "rev-parse", "--show-toplevel") == [str(folder)]


@pytest.mark.parametrize("name", ["HEAD", "main"])
def test_a_commit_by_its_name(repository: Path, name: str) -> None:
    git(repository, "branch", "-M", "main")
    assert resolve_commit(repository, name) == git(repository, "rev-parse", "HEAD")
    with pytest.raises(CannotRead, match="no such commit"):
        resolve_commit(repository, "HEAD:a.yaml")


def test_links_are_read_at_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    for number in range(50):
        (repository / f"{number}.yaml").symlink_to("a.yaml")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "links")
    begun: list[object] = []
    begin, here = subprocess.Popen.__init__, threading.get_ident()

    def counted(self: object, *words: object, **named: object) -> None:
        if threading.get_ident() == here:  # A loop of a test before may still begin some.
            begun.append(words)
        begin(self, *words, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    assert len(list(CommitSource(repository, "HEAD").files())) == 1
    assert len(begun) == 3
