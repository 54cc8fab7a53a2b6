"""What is proposed to a remote from elsewhere, kept apart from what is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.gitops import proposed_heads
from reconciler.gitops.proposed_heads import ProposedHeads
from reconciler.gitops.remote import Remote
from schemas.files.git_objects import list_tree
from schemas.problems.errors.git_remote import NoSuchRevision, RemoteUnreachable
from tests.reconciler.gitops.repositories import Pair, git


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, {"a": "first"})


@pytest.fixture
def remote(pair: Pair, tmp_path: Path) -> Remote:
    made = Remote(str(pair.bare), tmp_path / "state" / "copy")
    made.folder.parent.mkdir()
    made.fetch("main")
    return made


@pytest.fixture
def heads(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> ProposedHeads:
    monkeypatch.setattr(proposed_heads, "INTERVAL", 0.0)
    return ProposedHeads(remote, remote.folder.with_name("proposed"))


@pytest.mark.parametrize("ref", ["refs/pull/7/head", "refs/merge-requests/7/head"])
def test_a_head_is_found_and_its_files_with_it(
    pair: Pair, remote: Remote, heads: ProposedHeads, ref: str
) -> None:
    commit = pair.commit({"b": "from a fork"})
    pair.push(branch=ref)
    assert heads.find(7) == commit
    assert {each.path for each in list_tree(heads.folder, commit, what="it")} == {"a", "b"}
    assert not remote.has_commit(commit)
    remote.fetch("main")
    assert not remote.has_commit(commit)
    later = pair.commit({"b": "and more"})
    pair.push("--force", branch=ref)
    assert heads.find(7) == later


def test_one_that_is_not_there_is_said_and_keeps_the_others(pair: Pair, heads: ProposedHeads) -> None:
    pair.push(branch="refs/pull/1/head")
    commit = heads.find(1)
    with pytest.raises(NoSuchRevision, match="#2"):
        heads.find(2)
    assert heads.find(1) == commit


def test_a_remote_that_is_away_is_said(pair: Pair, heads: ProposedHeads) -> None:
    pair.push(branch="refs/pull/1/head")
    pair.bare.rename(pair.bare.with_name("elsewhere"))
    with pytest.raises(RemoteUnreachable):
        heads.find(1)


def test_a_copy_that_was_made_anew_does_not_leave_them_broken(
    pair: Pair, remote: Remote, heads: ProposedHeads
) -> None:
    pair.push(branch="refs/pull/1/head")
    first = heads.find(1)
    for each in (heads.folder / "objects" / "info" / "alternates", heads.folder / "HEAD"):
        each.unlink()
    assert heads.find(1) == first


def test_too_much_is_forgotten_and_fetched_anew(
    pair: Pair, heads: ProposedHeads, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.commit({"b": "x" * 5000})
    pair.push(branch="refs/pull/1/head")
    heads.find(1)
    monkeypatch.setattr(proposed_heads, "LARGEST", 1)
    commit = pair.commit({"c": "y"})
    pair.push(branch="refs/pull/2/head")
    assert heads.find(2) == commit
    assert "refs/pull/1/head" not in git(heads.folder, "for-each-ref")


def test_it_is_asked_once_for_a_while(
    pair: Pair, heads: ProposedHeads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposed_heads, "INTERVAL", 3600.0)
    pair.push(branch="refs/pull/1/head")
    first = heads.find(1)
    pair.commit({"b": "later"})
    pair.push("--force", branch="refs/pull/1/head")
    assert heads.find(1) == first
