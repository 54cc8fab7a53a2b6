"""Who wrote commits, and their first lines, as the git repository here knows them."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_WHOLE = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_REMEMBERED = 4096
_FORMAT = "%H%n%<(200,trunc)%an%n%<(200,trunc)%ae%n%<(500,trunc)%s"
"""Cut by git: one commit with a name of many megabytes would else leave all others without their authors."""


class CommitFacts(NamedTuple):
    """What git says of a commit; empty where it does not know it. Written by whoever committed: to be cleaned
    before it is shown."""

    author: str = ""
    subject: str = ""


def read_commit_facts(git: Path | None, commits: Iterable[str]) -> dict[str, CommitFacts]:
    """Of those that are known here, by one git for all."""
    from schemas.files.git_process import execute_git

    # What stands in a store is no option of git's.
    wanted = sorted({commit for commit in commits if _WHOLE.fullmatch(commit)})
    if git is None or not wanted:
        return {}
    done = execute_git(
        "log", "--no-walk=unsorted", "--ignore-missing", "--no-show-signature", "--no-mailmap",
        "-z", f"--format={_FORMAT}", "--stdin",
        folder=git, data="".join(f"{commit}\n" for commit in wanted).encode(),
    )  # fmt: skip
    if done.returncode != 0:
        return {}
    found = {}
    for record in done.stdout.decode("utf-8", "replace").split("\0"):
        lines = [line.rstrip() for line in record.split("\n")]
        if len(lines) >= 4:
            found[lines[0]] = CommitFacts(f"{lines[1]} <{lines[2]}>", lines[3])
    return found


class CommitFactsCache:
    """Remembers what git said of commits, which never change; asks one git for all that it does not know
    yet. Of those that git does not know it asks again: they may have been fetched since. Thread-safe."""

    def __init__(self, most: int = _MOST_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, CommitFacts] = OrderedDict()

    def read(self, git: Path | None, commits: Iterable[str]) -> dict[str, CommitFacts]:
        """As `read_commit_facts`, of the same repository each time."""
        wanted = set(commits)
        with self._lock:
            found = {commit: self._known[commit] for commit in wanted if commit in self._known}
        new = read_commit_facts(git, wanted - found.keys())
        found |= new
        with self._lock:
            self._known.update(new)
            for commit in found.keys() & self._known.keys():
                self._known.move_to_end(commit)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found
