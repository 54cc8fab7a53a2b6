"""What is asked of git itself, beside documents."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from schemas.problems.errors.repository import CannotRead

_REPOSITORY_VARIABLES = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX",
)  # fmt: skip
"""What git tells the hooks it runs, and what would lead ours to another repository."""


def git_environment() -> dict[str, str]:
    """Ours, for a git that is to ask about the folder it is given, and to speak English, as what it says is
    read. No object stands in for another one: `refs/replace` may have come from anybody."""
    ours = {"LC_ALL": "C", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
    return {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES} | ours


def git_lines(folder: Path, *arguments: str) -> list[str] | None:
    """Lines that git says, or None when it fails. Raises CannotRead when it refuses to look because somebody
    else owns the folder."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=git_environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return None
    if "dubious ownership" in done.stderr:
        hint = f"git config --global --add safe.directory {folder}"
        raise CannotRead(
            what=str(folder), why="git distrusts a repository that somebody else owns", hint=hint
        )
    return done.stdout.splitlines() if done.returncode == 0 else None


def resolve_commit(folder: Path, revision: str) -> str:
    """The full name of a commit. Raises CannotRead."""
    # `--end-of-options` would be safer still, but older versions of git print it.
    found = git_lines(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if revision.startswith("-") or not found:
        hint = "fetch it first; a shallow clone may lack it"
        raise CannotRead(what=f"revision {revision}", why="there is no such commit here", hint=hint)
    return found[0]


def merge_base(folder: Path, one: str, other: str) -> str:
    """The newest commit that both rest on. Raises CannotRead when a commit is not there, or they share
    none."""
    first, second = resolve_commit(folder, one), resolve_commit(folder, other)
    found = git_lines(folder, "merge-base", first, second)
    if not found:
        hint = "a shallow clone lacks what they share: fetch the whole history"
        raise CannotRead(what=f"what {one} and {other} have in common", why="git finds nothing", hint=hint)
    return found[0]


def commit_time(folder: Path, commit: str) -> float:
    """When a commit was made, in seconds since the epoch. Raises CannotRead."""
    found = git_lines(folder, "show", "--no-patch", "--format=%ct", commit)
    if not found:
        raise CannotRead(what=f"revision {commit}", why="there is no such commit here")
    return float(found[0])
