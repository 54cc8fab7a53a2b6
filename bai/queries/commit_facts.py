"""Who wrote commits, and their first lines, as the git repository here knows them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_WHOLE = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


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
        "-z", "--format=%H%n%an <%ae>%n%s", "--stdin",
        folder=git, data="".join(f"{commit}\n" for commit in wanted).encode(),
    )  # fmt: skip
    if done.returncode != 0:
        return {}
    found = {}
    for record in os.fsdecode(done.stdout).split("\0"):
        lines = record.split("\n")
        if len(lines) >= 3:
            found[lines[0]] = CommitFacts(lines[1], lines[2])
    return found
