"""What is asked of git about commits: which are new, what they say, which paths they change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from reconciler.trust.commit_object import parse_commit
from reconciler.trust.values import Commit, CommitRefusal
from schemas.files.git_objects import REGULAR_FILE_MODES, list_tree, read_objects
from schemas.files.git_process import ask_git
from schemas.problems.errors.repository import CannotRead

MAX_COMMITS = 10_000
"""Commits that are judged at once."""
_WHAT = "the new commits"
_ask = partial(ask_git, what=_WHAT)
Paths = frozenset[bytes]


def commits_between(folder: Path, base: str, tip: str) -> list[str]:
    """Commits that `tip` rests on and `base` does not, the oldest first; at most one more than
    `MAX_COMMITS`."""
    said = _ask(
        folder, "rev-list", "--topo-order", "--reverse", f"--max-count={MAX_COMMITS + 1}", tip, f"^{base}"
    )
    return said.decode("ascii").split()


def read_commits(folder: Path, names: Sequence[str]) -> tuple[list[Commit], list[CommitRefusal]]:
    """What they say, and those that cannot be read."""
    found: list[Commit] = []
    refused: list[CommitRefusal] = []
    for name, data in zip(names, read_objects(folder, names, "commit", what=_WHAT), strict=True):
        try:
            if data is None:
                raise ValueError("it is no commit")
            found.append(parse_commit(name, data))
        except ValueError as error:
            refused.append(CommitRefusal(name, str(error)))
    return found, refused


def read_file_at(folder: Path, commit: str, path: str) -> bytes | None:
    """A regular file of a commit; None where there is nothing. Raises ValueError for something else."""
    entry = next(list_tree(folder, commit, "--", path, what=_WHAT), None)
    if entry is None:
        return None
    if entry.mode not in REGULAR_FILE_MODES:
        raise ValueError(f"{path} is no plain file")
    (data,) = read_objects(folder, [entry.name], "blob", what=_WHAT)
    if data is None:
        raise CannotRead(what=_WHAT, why=f"object {entry.name} is missing")
    return data


def changed_paths(folder: Path, found: Sequence[Commit]) -> list[Paths]:
    """The paths that each changes, in this order. A rename changes both paths.

    Of a merge, those whose content did not come from one side by itself: paths that differ from both sides,
    and those that it takes from the side that left them as they were, which undoes the other side's change.
    Where that cannot be told (more than two sides, none or several common ancestors that disagree),
    whatever differs from a side.
    """
    pairs: list[tuple[str, ...]] = []
    bases: dict[str, list[str]] = {}
    for commit in found:
        match list(commit.parents):
            case [one, other]:
                bases[commit.name] = _merge_bases(folder, one, other)
                sides = [(side, base) for side in (one, other) for base in bases[commit.name]]
                pairs += [(commit.name, one), (commit.name, other), *sides]
            case []:
                pairs.append((commit.name,))
            case parents:
                pairs += [(commit.name, parent) for parent in parents]
    differences = iter(_diff_paths(folder, pairs))
    return [_own_changes(commit, bases.get(commit.name, []), differences) for commit in found]


def descends_from(folder: Path, commit: str, base: str) -> bool:
    """Whether `base` is this commit, or in its history."""
    return not _ask(folder, "rev-list", "--max-count=1", base, f"^{commit}")


def differing_paths(folder: Path, one: str, other: str) -> Paths:
    """The paths that differ between two commits."""
    return next(_diff_paths(folder, [(one, other)]), frozenset())


def _own_changes(commit: Commit, bases: list[str], differences: Iterator[Paths]) -> Paths:
    if len(commit.parents) != 2:
        return frozenset().union(*(next(differences) for _ in commit.parents or ("",)))
    from_one, from_other = next(differences), next(differences)
    one = [next(differences) for _ in bases]
    other = [next(differences) for _ in bases]
    if not bases:
        return from_one | from_other
    # What is the other side's (it differs from this one alone) must be new there, and as it was here.
    taken_from_other = {path for path in from_one - from_other if _is_taken_over(path, other, one)}
    taken_from_one = {path for path in from_other - from_one if _is_taken_over(path, one, other)}
    return (from_one | from_other) - taken_from_other - taken_from_one


def _is_taken_over(path: bytes, there: list[Paths], here: list[Paths]) -> bool:
    """Whether a path was changed there since all common ancestors, and not here since one of them."""
    return all(path in since for since in there) and any(path not in since for since in here)


def _merge_bases(folder: Path, one: str, other: str) -> list[str]:
    return _ask(folder, "merge-base", "--all", one, other, accepted=(0, 1)).decode("ascii").split()


def _diff_paths(folder: Path, pairs: Sequence[tuple[str, ...]]) -> Iterator[Paths]:
    """For each commit and the one it is compared with (none: with nothing), the paths that differ."""
    if not pairs:
        return
    said = _ask(
        folder, "diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--root", "--always",
        "--no-ext-diff", "--no-textconv", "--ignore-submodules=none",
        data="".join(f"{' '.join(pair)}\n" for pair in pairs).encode("ascii"),
    )  # fmt: skip
    parts = iter(said.split(b"\0"))
    paths: set[bytes] | None = None
    for part in parts:
        if part.startswith(b":"):
            assert paths is not None
            paths.add(next(parts))
            continue
        if paths is not None:
            yield frozenset(paths)
        paths = set()
