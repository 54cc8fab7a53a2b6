"""The audit of the API names who wrote a commit, to those who may know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.sources.source import open_source
from schemas.files import git_process
from tests.bai.web.lab import Lab, bearer
from tests.reconciler.gitops.repositories import git
from tests.reconciler.lab import session

HERE = "/api/v1/clusters/here"
EVE = "Eve\x1b[2J <eve@cluster.example>"


def commit(lab: Lab, author: str, **files: str) -> str:
    for name, text in files.items():
        lab.write(name, text)
    git(lab.folder, "add", "--all")
    git(lab.folder, "commit", "--quiet", "--allow-empty", "--message", "change", "--author", author)
    return git(lab.folder, "rev-parse", "HEAD")


def apply(lab: Lab, name: str) -> None:
    order = {"commit": name, "why": "test"}
    answer = lab.client.post(f"{HERE}/rollback", headers=bearer("admin"), json=order)
    assert answer.status_code < 300, answer.text
    assert lab.once()


@pytest.fixture
def commits(lab: Lab) -> list[str]:
    """Two of them, carried out one after the other."""
    git(lab.folder, "init", "--quiet")
    made = [commit(lab, "Ada <ada@cluster.example>", a=session("a"))]
    made.append(commit(lab, EVE, b=session("b")))
    lab.workspace.source = open_source(lab.folder)
    for each in made:
        apply(lab, each)
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """What git is asked."""
    seen: list[tuple[str, ...]] = []
    real = git_process.execute_git

    def execute_git(*arguments: str, **options: Any) -> Any:
        seen.append(arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(git_process, "execute_git", execute_git)
    yield seen


def authors(lab: Lab, query: str = "", token: str = "viewer") -> dict[str, str]:
    return {each["resource"]: each["author"] for each in lab.get(f"{HERE}/audit{query}", token)}


def test_who_wrote_the_commit_stands_beside_who_applied_it(lab: Lab, commits: list[str]) -> None:
    found = authors(lab)
    assert found["Session/p/a"] == "Ada <ada@cluster.example>" and found["Session/p/b"] == EVE
    (entry,) = lab.get(f"{HERE}/audit?resource=Session/p/b&limit=1")
    assert (entry["actor"], entry["commit"]) == ("loop", commits[1])


def test_who_sees_some_projects_is_told_no_authors(lab: Lab, commits: list[str]) -> None:
    """The commit may be another project's, and so may be who wrote it."""
    answer = lab.client.get(f"{HERE}/audit", headers=bearer("ours"))
    assert {each["resource"] for each in answer.json()} >= {"Session/p/a", "Session/p/b"}
    assert {each["author"] for each in answer.json()} == {""}
    assert "eve@" not in answer.text and "ada@" not in answer.text


def test_a_commit_is_asked_for_once(lab: Lab, commits: list[str], asked: list[tuple[str, ...]]) -> None:
    authors(lab)
    assert len(asked) == 1
    for limit in range(1, 20):
        authors(lab, f"?limit={limit}")
    assert len(asked) == 1
    apply(lab, commit(lab, "Bob <bob@cluster.example>", c=session("c")))
    asked.clear()
    assert authors(lab)["Session/p/c"].startswith("Bob ")
    assert len(asked) == 1


def test_what_git_does_not_know_has_no_author(lab: Lab, commits: list[str], tmp_path: Path) -> None:
    (lab.folder / ".git").rename(tmp_path / "gone")
    assert set(authors(lab).values()) == {""}
    (tmp_path / "gone").rename(lab.folder / ".git")
    assert authors(lab, "?limit=999")["Session/p/b"] == EVE


def test_documents_that_are_in_no_repository_have_no_authors(lab: Lab) -> None:
    lab.write("a", session("a"))
    lab.once()
    assert set(authors(lab).values()) == {""}
