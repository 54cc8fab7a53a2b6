"""Git is asked about the folder that is meant, whatever the one who started us was told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.sources.source import open_source
from schemas.files.git_process import git_lines
from tests.reconciler.gitops.repositories import Pair, git


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path)
    made.commit({"clusters/one/a.yaml": "a", "top.yaml": "b"})
    return made


def test_in_a_hook_of_git(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a pre-commit hook is run: with the repository's place and index in the environment."""
    folder = pair.work / "clusters" / "one"
    before = open_source(folder)
    other = Pair(tmp_path / "other")
    other.commit({"else.yaml": "x"})
    for place in (".git", str(other.work / ".git")):
        monkeypatch.setenv("GIT_DIR", place)
        monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
        monkeypatch.setenv("GIT_PREFIX", "")
        assert open_source(folder) == before


def test_the_commit_is_read_from_there_too(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from schemas.files.git_source import CommitSource

    other = Pair(tmp_path / "other")
    other.commit({"else.yaml": "x"})
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
