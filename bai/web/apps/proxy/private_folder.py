"""A folder for sockets, of this process alone and for as long as it lives. What a bai that was killed has
left is deleted by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "bai-apps-"
_LONGEST = 70
"""Characters: a socket's name in it has 32, and its path at most 107."""


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    parent = Path(tempfile.gettempdir())
    if len(str(parent / PREFIX)) + 8 > _LONGEST:
        parent = Path("/tmp")
    for left in parent.glob(f"{PREFIX}*"):
        _delete_abandoned(left)
    folder, lock = _make(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(parent: Path) -> tuple[Path, int]:
    """Another bai that starts may take it for abandoned, until it is locked."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = _lock(folder)
        if lock is not None and folder.exists():
            return folder, lock
        if lock is not None:
            os.close(lock)


def _delete_abandoned(folder: Path) -> None:
    """Where it is ours, and nobody lives in it."""
    try:
        if folder.lstat().st_uid != os.geteuid():
            return
    except FileNotFoundError:
        return
    lock = _lock(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """None where somebody else has it, and where it is no folder."""
    try:
        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(found)
        return None
    return found
