"""What is asked of a git repository: commits by their names, trees, and the bytes of objects."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.files.git_process import MAX_OUTPUT_BYTES, ask_git, git_lines
from schemas.problems.errors.repository import CannotRead
from schemas.problems.text import printable

REGULAR_FILE_MODES = ("100644", "100755")
LINK_MODE = "120000"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    path: str
    mode: str
    kind: str
    name: str
    """Of the object."""
    size: int
    """0 for what is no blob."""


def resolve_commit(folder: Path, revision: str) -> str:
    """The full name of a commit. Raises CannotRead."""
    # `--end-of-options` would be safer still, but older versions of git print it.
    found = git_lines(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if revision.startswith("-") or not found:
        ask_git(folder, "rev-parse", "--git-dir", what=printable(str(folder)))
        hint = "fetch it first; a shallow clone may lack it"
        raise CannotRead(
            what=f"revision {printable(revision)}", why="there is no such commit here", hint=hint
        )
    return found[0]


def merge_base(folder: Path, one: str, other: str) -> str:
    """The newest commit that both rest on. Raises CannotRead when a commit is not there, or they share
    none."""
    named = [f"{each}^{{commit}}" for each in (one, other)]
    # Before a name, that would be an option.
    found = None if "-" in (one[:1], other[:1]) else git_lines(folder, "merge-base", *named)
    if not found:
        resolve_commit(folder, one)
        resolve_commit(folder, other)
        hint = "a shallow clone lacks what they share: fetch the whole history"
        raise CannotRead(what=f"what {one} and {other} have in common", why="git finds nothing", hint=hint)
    return found[0]


def commit_time(folder: Path, commit: str) -> float:
    """When a commit was made, in seconds since the epoch. Raises CannotRead."""
    found = git_lines(folder, "show", "--no-patch", "--format=%ct", commit)
    if not found:
        raise CannotRead(what=f"revision {commit}", why="there is no such commit here")
    return float(found[0])


def list_tree(folder: Path, *asked: str, what: str) -> Iterator[TreeEntry]:
    """What `ls-tree` lists of a tree or commit. Raises CannotRead."""
    said = ask_git(folder, "ls-tree", "-z", "-l", "--full-tree", *asked, what=what)
    for line in said.split(b"\0"):
        if line:
            facts, _, path = line.partition(b"\t")
            mode, kind, name, size = facts.decode("ascii").split()
            if kind == "blob" and not size.isdigit():
                raise CannotRead(what=what, why=f"object {name} is missing or damaged")
            yield TreeEntry(os.fsdecode(path), mode, kind, name, int(size) if kind == "blob" else 0)


def read_objects(
    folder: Path, names: Sequence[str], kind: str, *, what: str, limit: int = MAX_OUTPUT_BYTES
) -> Iterator[bytes | None]:
    """The bytes of objects, by one `git cat-file`; None for what is of another kind, or not there. Raises
    CannotRead."""
    asked = "".join(f"{name}\n" for name in names).encode("ascii")
    answer = ask_git(folder, "cat-file", "--batch", "--buffer", what=what, data=asked, limit=limit)
    at = 0
    for _ in names:
        end = answer.index(b"\n", at)
        _, *found, size = answer[at:end].decode("ascii").split()
        at = end + 1
        if not size.isdigit():
            yield None
            continue
        yield answer[at : at + int(size)] if found == [kind] else None
        at += int(size) + 1
