"""Who wrote commits, as git says it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from reconciler.sources.commit_facts import CommitFacts, CommitFactsCache, read_commit_facts
from schemas.files import git_process
from tests.reconciler.gitops.repositories import Pair, git


def test_authors_are_read_of_known_commits_by_one_git_and_nothing_else(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    first = pair.commit({"a": "1"}, "one")
    author = "Mal\x1b[2J <mal@cluster.example>"
    (pair.work / "a").write_text("2")
    git(pair.work, "commit", "--quiet", "--all", "--author", author, "--message", "two")
    second = git(pair.work, "rev-parse", "HEAD")
    found = read_commit_facts(pair.work, [second, first, "0" * 40, "", "--all", "HEAD", first + "\n--all"])
    assert found == {
        first: CommitFacts("Ada <ada@cluster.example>", "one"),
        second: CommitFacts(author, "two"),
    }
    assert read_commit_facts(pair.work, ["0" * 40]) == {} == read_commit_facts(None, [first])
    assert read_commit_facts(tmp_path / "nowhere", [first]) == {}


def test_a_name_of_megabytes_hides_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git says in all has a bound, beyond which nothing of it counts; here a lower one."""
    monkeypatch.setattr(git_process, "execute_git", partial(git_process.execute_git, limit=1 << 20))
    pair = Pair(tmp_path)
    first = pair.commit({"a": "1"}, "one")
    tree = git(pair.work, "rev-parse", "HEAD^{tree}")
    head = f"tree {tree}\nparent {first}\n"
    who = "M" * (600 << 10) + " <mal@cluster.example> 1800000000 +0000"
    raw = tmp_path / "commit"
    raw.write_text(f"{head}author {who}\ncommitter {who}\n\n{'s' * (600 << 10)}\n")
    large = git(pair.work, "hash-object", "-t", "commit", "-w", str(raw))
    found = read_commit_facts(pair.work, [first, large])
    assert found[first].author == "Ada <ada@cluster.example>"
    assert found[large].author.startswith("MMM") and len(found[large].author) < 500
    assert len(found[large].subject) < 600


def test_what_is_not_ascii_is_text(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    tree = git(pair.work, "rev-parse", pair.commit({"a": "1"}) + "^{tree}")
    raw = tmp_path / "commit"
    who = b"J\xf6rg \xff <j@x> 1800000000 +0000"
    raw.write_bytes(b"tree " + tree.encode() + b"\nauthor " + who + b"\ncommitter " + who + b"\n\nx\n")
    strange = git(pair.work, "hash-object", "-t", "commit", "-w", str(raw))
    assert read_commit_facts(pair.work, [strange])[strange].author.encode().endswith(b" <j@x>")


def test_what_is_remembered_has_a_bound_and_is_not_asked_for_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    made = [pair.commit({"a": str(at)}) for at in range(4)]
    cache = CommitFactsCache(most=3)
    assert cache.read(pair.work, made[:3]).keys() == set(made[:3])
    nowhere = tmp_path / "nowhere"
    assert cache.read(nowhere, made).keys() == set(made[:3])
    cache.read(pair.work, [made[0]])
    cache.read(pair.work, [made[3]])
    assert made[0] in cache.read(nowhere, made) and len(cache.read(nowhere, made)) == 3
