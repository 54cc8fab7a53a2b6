"""What git says of commits and branches, for pages. Names and messages are written by whoever commits: to be
cleaned before they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from bai.render.humanize import iso_time
from schemas.files.git_process import ask_git, git_lines
from schemas.problems.errors.repository import CannotRead

MOST_COMMITS = 100
"""Commits that a page lists."""
MOST_FILES = 100
"""Files that a page lists."""
MOST_BRANCHES = 1000
"""Branches that are looked at, those with the newest commits."""
LONGEST_NAME = 300
"""Characters of the name of a branch or tag that is asked for."""
_COMMIT = "%H%n%<(200,trunc)%an%n%ct%n%<(500,trunc)%s"
"""Cut by git: a name may have many megabytes."""
_BRANCH = "%(refname)%00%(objectname)%00%(authorname)%00%(committerdate:unix)%00%(subject)"
_FILE_VERBS = {"A": "create", "D": "delete"}
_LONGEST = 500
"""Characters of a name or message that are kept of a branch."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class CommitRow:
    """A commit; `at` as ISO 8601."""

    commit: str
    author: str
    at: str
    subject: str


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file that differs; `verb`: create, change or delete."""

    verb: str
    path: str


@dataclass(frozen=True, slots=True)
class FirstRows(Generic[Row]):
    """Of a list, those that a page has; `total` counts also those that are left out."""

    rows: tuple[Row, ...]
    total: int

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A branch with its newest commit; `ref` as git has it, `refs/heads/next`."""

    ref: str
    tip: CommitRow

    @property
    def name(self) -> str:
        return self.ref.removeprefix("refs/heads/")

    @property
    def revision(self) -> str:
        """What it is asked for by: its ref, or its commit where that is no text, or more than is taken."""
        is_text = self.ref.isprintable() and "\ufffd" not in self.ref and len(self.ref) <= LONGEST_NAME
        return self.ref if is_text else self.tip.commit


def commits_between(git: Path, base: str, head: str, most: int = MOST_COMMITS) -> FirstRows[CommitRow]:
    """Those that `head` rests on and `base` does not, both by their full names, the newest first; all of
    `head`'s without a base. Raises CannotRead."""
    asked = (head, *([f"^{base}"] if base else []))
    what = f"the commits of {head[:12]}"
    said = ask_git(
        git, "log", "-z", f"--max-count={most}", f"--format={_COMMIT}", "--no-show-signature",
        "--no-mailmap", *asked, "--", what=what,
    )  # fmt: skip
    counted = ask_git(git, "rev-list", "--count", *asked, "--", what=what)
    return FirstRows(tuple(_commit_rows(said.decode("utf-8", "replace"))), int(counted))


def changed_files(git: Path, base: str, head: str, folder: str, most: int = MOST_FILES) -> FirstRows[FileRow]:
    """Files below `folder` that differ between two commits, by name. Raises CannotRead."""
    said = ask_git(
        git, "diff-tree", "-r", "-z", "--name-status", "--no-renames", base, head, "--", folder or ".",
        what=f"the files of {head[:12]}",
    )  # fmt: skip
    words = said.decode("utf-8", "replace").split("\0")
    found = [
        FileRow(_FILE_VERBS.get(verb, "change"), path)
        for verb, path in zip(words[::2], words[1::2], strict=False)
    ]
    return FirstRows(tuple(found[:most]), len(found))


def first_parent(git: Path, commit: str) -> str:
    """What a commit was made on; empty for a first one, and for what is not there."""
    found = git_lines(git, "rev-parse", "--verify", "--quiet", f"{commit}^")
    return found[0] if found else ""


def is_in_history(git: Path, commit: str, head: str) -> bool:
    """Whether `head` rests on a commit, or is it. Raises CannotRead."""
    return commit == head or git_lines(git, "merge-base", "--is-ancestor", commit, head) is not None


def newer_branches(git: Path, base: str) -> list[BranchRow]:
    """Branches with commits that `base` does not rest on, those first that were changed last. Raises
    CannotRead."""
    said = ask_git(
        git, "for-each-ref", f"--no-merged={base}", f"--count={MOST_BRANCHES}", "--sort=-committerdate",
        f"--format={_BRANCH}", "refs/heads", what="its branches",
    )  # fmt: skip
    return list(_branch_rows(said.decode("utf-8", "replace").split("\n")))


def _commit_rows(said: str) -> Iterator[CommitRow]:
    for record in said.split("\0"):
        lines = [line.rstrip() for line in record.split("\n")]
        if len(lines) >= 4:
            yield CommitRow(lines[0], lines[1], iso_time(_seconds(lines[2])), lines[3])


def _branch_rows(lines: Sequence[str]) -> Iterator[BranchRow]:
    for line in lines:
        parts = line.split("\0")
        if len(parts) == 5:
            ref, commit, author, at, subject = parts
            tip = CommitRow(commit, author[:_LONGEST], iso_time(_seconds(at)), subject[:_LONGEST])
            yield BranchRow(ref, tip)


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def require_git(git: Path | None) -> Path:
    """Raises CannotRead where the documents are in no git repository."""
    if git is None:
        raise CannotRead(what="its commits", why="the documents are in no git repository")
    return git
