"""Which folder is the repository of bai that a folder is in."""

from __future__ import annotations

import re
from pathlib import Path

from schemas.files.git_process import git_lines, is_below_git
from schemas.files.sources import DirectorySource, mentions_api_version

_CLUSTER = re.compile(rb"""\bkind['"]?\s*:\s*['"]?Cluster['"]?\s*(?:[,}#\r\n]|\Z)""")


def find_repository_root(folder: Path) -> Path:
    """`folder` where it or what is below declares a cluster, or where it is in no git repository or its top;
    else the nearest folder above it in the same git repository of which that is true; `folder` when of none.

    Folders above are looked at in a git repository only: git refuses those that somebody else owns. Raises
    CannotRead then.
    """
    if (folder / ".git").exists() or not is_below_git(folder):
        return folder
    found = git_lines(folder, "rev-parse", "--show-toplevel")
    top = Path(found[0]) if found else folder
    above = (parent for parent in folder.parents if parent.is_relative_to(top))
    if top == folder or declares_cluster(folder):
        return folder
    return next(filter(declares_cluster, above), folder)


def declares_cluster(folder: Path) -> bool:
    """Whether a file in it, or below, seems to have a Cluster document; reads until one is found."""
    files = DirectorySource(folder).files()
    return any(_CLUSTER.search(file.data) and mentions_api_version(file.data) for file in files)
