"""Documents that can be used when those that are there now cannot: for commands that only look."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from reconciler.sources.source import Source
from schemas.files.git_process import git_lines
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead, InvalidRepository

MAX_COMMITS = 10
"""Commits that are tried, from the newest."""
MAX_FILES = 10
"""Files with mistakes whose commits are looked for."""
MAX_ROUNDS = 5
"""Times that files are left out: what named something in them is wrong then, too."""
T = TypeVar("T")


def open_last_good(
    source: Source, invalid: InvalidRepository, open_at: Callable[[Source], T]
) -> tuple[T, str]:
    """What `open_at` makes of the last good documents, and which these are, in words: of the newest commit
    that can be used, or without the files that have mistakes.

    `invalid`: what is wrong with those of `source`; it is raised when there are no others.
    """
    for commit in _commits(source, invalid):
        with contextlib.suppress(InvalidRepository, CannotRead, PlanError):
            return open_at(replace(source, revision=commit)), f"as of commit {commit[:12]}"
    left_out: frozenset[str] = frozenset()
    problems = invalid.problems
    for _ in range(MAX_ROUNDS):
        found = left_out | {problem.place.file for problem in problems}
        if found == left_out:
            break
        left_out = found
        try:
            return open_at(replace(source, left_out=left_out)), f"without {_named(left_out)}"
        except InvalidRepository as error:
            problems = error.problems
        except (CannotRead, PlanError):
            break
    raise invalid


def _commits(source: Source, invalid: InvalidRepository) -> Iterator[str]:
    """The commit that is checked out; then those before each that changed a file which has mistakes."""
    if source.git is None or not source.head:
        return
    yield source.head
    files = sorted({problem.place.file for problem in invalid.problems})[:MAX_FILES]
    folder = f"{source.subpath}/" if source.subpath else ""
    parents = git_lines(
        source.git, "log", "--first-parent", "--format=%P", f"--max-count={MAX_COMMITS}", source.head,
        "--", *(f":(top,literal){folder}{file}" for file in files),
    )  # fmt: skip
    for line in parents or ():
        yield from line.split()[:1]


def _named(files: frozenset[str]) -> str:
    return next(iter(files)) if len(files) == 1 else f"{len(files)} files"
