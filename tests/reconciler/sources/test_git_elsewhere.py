"""Git is asked about the folder that is meant, whatever the one who started us was told."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from reconciler.sources.source import open_source
from schemas.files import git_process
from schemas.files.git_process import git_lines
from tests.reconciler.gitops.repositories import Pair, git


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, {"clusters/one/a.yaml": "a", "top.yaml": "b"})


def test_in_a_hook_of_git(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a pre-commit hook is run: with the repository's place and index in the environment."""
    folder = pair.work / "clusters" / "one"
    before = open_source(folder)
    other = Pair(tmp_path / "other", {"else.yaml": "x"})
    for place in (".git", str(other.work / ".git")):
        monkeypatch.setenv("GIT_DIR", place)
        monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
        monkeypatch.setenv("GIT_PREFIX", "")
        assert open_source(folder) == before


def test_the_commit_is_read_from_there_too(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from schemas.files.git_source import CommitSource

    other = Pair(tmp_path / "other", {"else.yaml": "x"})
    monkeypatch.setenv("GIT_DIR", str(other.work / ".git"))
    source = CommitSource(pair.work, "HEAD", "clusters/one")
    assert [file.path for file in source.files()] == ["a.yaml"]


def test_distrust_is_understood_in_every_language(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "$LC_ALL"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    assert git_lines(pair.work, "status") == ["C"]
    monkeypatch.undo()
    assert git(pair.work, "status", "--porcelain") == ""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What git was asked by this thread: a loop of a test before may still ask something."""
    found: list[tuple[str, ...]] = []
    execute, here = git_process.execute_git, threading.get_ident()

    def noted(*arguments: str, **options: Any) -> Any:
        if threading.get_ident() == here:
            found.append(arguments)
        return execute(*arguments, **options)

    monkeypatch.setattr(git_process, "execute_git", noted)
    return found


def test_git_is_not_asked_where_it_would_find_nothing(tmp_path: Path, asked: list[tuple[str, ...]]) -> None:
    """Which is most of what a short command costs. A folder like a bare repository has no working copy."""
    plain = tmp_path / "plain" / "clusters"
    plain.mkdir(parents=True)
    git(plain, "init", "--quiet", "--bare")
    assert open_source(plain).git is None
    assert git_lines(plain, "rev-parse", "--show-toplevel") is None
    assert len(asked) == 1


def test_it_is_asked_wherever_there_is_a_repository(pair: Pair, tmp_path: Path) -> None:
    """Below its top, by a link, in a working copy whose `.git` is a file."""
    one = pair.work / "clusters" / "one"
    (tmp_path / "link").symlink_to(one)
    git(pair.work, "worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    for folder in (one, tmp_path / "link"):
        assert (open_source(folder).git, open_source(folder).subpath) == (pair.work, "clusters/one")
    assert open_source(tmp_path / "tree").git == tmp_path / "tree"
    assert open_source(tmp_path / "tree" / "clusters" / "one").subpath == "clusters/one"
