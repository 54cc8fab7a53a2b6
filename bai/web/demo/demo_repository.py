"""A git remote in a folder, to which several people commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.problems.errors.command import CommandError

MAIN = "main"
_ENVIRONMENT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


@dataclass(frozen=True, slots=True)
class Person:
    """Who commits, and for which project."""

    name: str
    full_name: str
    project: str = ""

    @property
    def email(self) -> str:
        return f"{self.name}@research.example"


class DemoRepository:
    """Commits are written without a working copy, by one git for all that were made since `write`. Raises
    CommandError where there is no git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _git("init", "--quiet", "--bare", f"--initial-branch={MAIN}", str(folder))
        self.moves = 0
        """How often the main branch has moved."""
        self._commits: list[str] = []
        self._begun: set[str] = set()
        """Branches that have a commit among these: git knows where they are by then."""

    def commit(
        self, who: Person, message: str, files: Mapping[str, str | None], at: float, branch: str = MAIN
    ) -> None:
        """`files`: text by path, None for one that goes. Another branch has this one commit, on top of the
        main one, whatever it had before."""
        stamp = f"{who.full_name} <{who.email}> {int(at)} +0000"
        lines = [f"commit refs/heads/{branch}", f"author {stamp}", f"committer {stamp}", _data(message)]
        if branch != MAIN:
            lines.append(f"from refs/heads/{MAIN}{'' if MAIN in self._begun else '^0'}")
        elif self.moves and MAIN not in self._begun:
            lines.append(f"from refs/heads/{MAIN}^0")
        for path, text in files.items():
            lines += [f"D {path}"] if text is None else [f"M 100644 inline {path}", _data(text)]
        self._commits.append("\n".join(lines) + "\n")
        self._begun.add(branch)
        self.moves += branch == MAIN

    def write(self) -> None:
        """Everybody sees what was committed."""
        if self._commits:
            _git("fast-import", "--quiet", "--force", folder=self.folder, given="".join(self._commits))
            self._commits, self._begun = [], set()


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def _git(*words: str, folder: Path | None = None, given: str = "") -> None:
    where = [] if folder is None else [f"--git-dir={folder}"]
    try:
        subprocess.run(
            ["git", *where, *words], input=given, text=True, check=True, capture_output=True,
            env={**os.environ, **_ENVIRONMENT},
        )  # fmt: skip
    except FileNotFoundError:
        raise CommandError(why="--demo needs git, and there is none", hint="install git") from None
