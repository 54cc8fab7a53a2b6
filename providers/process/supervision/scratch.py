"""How much a kernel's scratch folder may hold, where its file system can see to that: by a project quota.

The folder gets a project of its own before anything is in it, with a limit or without one, so that a limit
can be changed later at no cost. Which project that is stands on the folder itself, and nowhere else: it is
found again after any crash. The quota ends before the folder does, so that none is left behind.

A session cannot leave its project: whoever is in a user namespace of his own, as in every sandbox, may change
neither a file's project nor whether a folder hands it down (Linux, fs/file_attr.c: fileattr_set_prepare).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from providers.storage.node import mounts, project
from providers.storage.node.usage import SMALLEST
from providers.storage.node.walk import FolderRefused

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def quota_problem(root: str, *, sandboxed: bool) -> str:
    """Why no quota can hold the sessions of a root; empty when one can."""
    if not sandboxed:
        return "without a sandbox sessions could change their own quota"
    if os.geteuid() != 0:
        return "quotas are root's to set"
    try:
        return project.quota_problem(mounts.mount_of(root))
    except (OSError, FolderRefused) as error:
        return str(error)


def set_limit(kernel: Path, name: str, most: int, *, new: bool) -> bool:
    """Let the scratch folder of a kernel (its folder and id) hold `most` bytes; 0 for any number. False where
    no quota can do that; `new`: nothing is in it yet."""
    try:
        with _opened(kernel) as (folder, above):
            mount = mounts.mount_of(str(kernel))
            mine = project.own_project(folder, above)
            if not mine and not new:
                return False
            mine = mine or project.assign_project(mount, folder, name)
            project.set_project_limits(mount, folder, mine, most, most // SMALLEST)
            return True
    except (OSError, FolderRefused):
        return False


def lift_limit(kernel: Path) -> None:
    """Lift the limit of a kernel that is about to be deleted: no quota outlives its folder."""
    with contextlib.suppress(OSError, FolderRefused), _opened(kernel) as (folder, above):
        if mine := project.own_project(folder, above):
            project.set_project_limits(mounts.mount_of(str(kernel)), folder, mine, 0, 0)


@contextlib.contextmanager
def _opened(kernel: Path) -> Iterator[tuple[int, int]]:
    """A kernel's scratch folder, and the folder above it."""
    above = os.open(kernel, _FLAGS)
    try:
        folder = os.open("scratch", _FLAGS, dir_fd=above)
        try:
            yield folder, above
        finally:
            os.close(folder)
    finally:
        os.close(above)
