"""How much a folder holds, however many files that are, and whoever changes them meanwhile."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator

from providers.storage.node.walk import reference

PATIENCE = 20.0
"""Seconds after which counting stops: the figure is then a lower bound."""
DEEPEST = 1000
"""Levels of folders; each takes two open files and 32 KiB while it is read."""
SMALLEST = 4096
"""Bytes that one counts for at least where a limit is on bytes alone: else empty files could use up a file
system."""
_REMEMBERED = 200_000
"""Files with several names whose numbers are kept; of further ones each name counts for its part."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def count_usage(
    folder: int, patience: float = PATIENCE, *, least: int = 0, enough: int | None = None, before: int = 0
) -> tuple[int, bool]:
    """Bytes on disk, and whether everything was counted.

    Each file counts once however many names it has, and for at least `least`; other file systems mounted
    below do not count, nor what may not be read. Begins with `before`, and stops above `enough`.
    """
    end = time.monotonic() + patience
    walk = _Walk(folder)
    total = before + max(least, os.fstat(folder).st_blocks * 512)
    seen: set[int] = set()
    for found in walk:
        total += _counted_size(found, least, seen)
        if enough is not None and total > enough:
            return total, False
        if time.monotonic() > end:
            return total, False
    return total, walk.whole


def _counted_size(found: os.stat_result, least: int, seen: set[int]) -> int:
    size = max(least, found.st_blocks * 512)
    if found.st_nlink <= 1 or stat.S_ISDIR(found.st_mode):
        return size
    if found.st_ino in seen:
        return 0
    if len(seen) >= _REMEMBERED:
        return size // found.st_nlink
    seen.add(found.st_ino)
    return size


class _Walk:
    """What is below a folder on its file system, without following links; entries are read one by one.
    `whole` is False when some of it lies too deep."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._device = os.fstat(folder).st_dev
        self._levels: list[tuple[int, Iterator[os.DirEntry[str]]]] = []
        self.whole = True

    def __iter__(self) -> Iterator[os.stat_result]:
        try:
            self._enter(".", self._folder)
            while self._levels:
                here, entries = self._levels[-1]
                name = _next(entries)
                if name is None:
                    self._leave()
                    continue
                found = _stat(name, here)
                if found is None or found.st_dev != self._device:
                    continue
                yield found
                if stat.S_ISDIR(found.st_mode):
                    self._enter(name, here)
        finally:
            while self._levels:
                self._leave()

    def _enter(self, name: str, above: int) -> None:
        if len(self._levels) >= DEEPEST:
            self.whole = False
            return
        try:
            here = os.open(name, _FOLDER, dir_fd=above)
        except OSError as error:
            self.whole = self.whole and error.errno not in (errno.EMFILE, errno.ENFILE)
            return
        try:
            self._levels.append((here, os.scandir(here)))
        except OSError as error:
            self.whole = self.whole and error.errno not in (errno.EMFILE, errno.ENFILE)
            os.close(here)

    def _leave(self) -> None:
        here, entries = self._levels.pop()
        entries.close()  # type: ignore[attr-defined]
        os.close(here)


def _next(entries: Iterator[os.DirEntry[str]]) -> str | None:
    try:
        entry = next(entries, None)
    except OSError:
        return None
    return None if entry is None else entry.name


def _stat(name: str, here: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=here, follow_symlinks=False)
    except OSError:
        return None


def ceph_usage(folder: int) -> int | None:
    """Bytes as CephFS counts them itself; None elsewhere."""
    try:
        return int(os.getxattr(reference(folder), "ceph.dir.rbytes"))
    except (OSError, ValueError):
        return None
