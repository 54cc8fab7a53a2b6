"""Files that need no reading again, because the file system says that nothing has happened to them since."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from schemas.files.regular_files import open_regular_file, read_descriptor

SETTLED = 2.0
"""Seconds after a change in which another one may leave the same times behind: those of most file systems are
as coarse as the kernel's clock ticks, of some as a second (git calls such entries of its index racy)."""


@dataclass(frozen=True, slots=True)
class _KnownFile:
    signature: tuple[int, ...]
    data: bytes


class FileMemory:
    """What files held when they were read last. Gives the same object while a file has not changed, so that
    `is` tells. For one thread."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._known: dict[str, _KnownFile] = {}
        self._before: dict[str, _KnownFile] = {}

    def begin(self) -> None:
        """All of them will be read again: what is not, is forgotten at the next beginning."""
        self._before, self._known = self._known, {}

    def read(self, path: str | os.PathLike[str], most: int) -> bytes:
        """As `read_regular_file` does, and raises what that raises."""
        name = os.fspath(path)
        known = self._known.pop(name, None) or self._before.get(name)
        if known is not None and len(known.data) <= most and _signature(os.stat(path)) == known.signature:
            self._known[name] = known
            return known.data
        descriptor = open_regular_file(path)
        try:
            before = os.fstat(descriptor)
            data = read_descriptor(descriptor, path, most)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if known is not None and known.data == data:
            data = known.data
        is_settled = self._now() - max(after.st_mtime, after.st_ctime) > SETTLED
        signature = _signature(after) if is_settled and _signature(before) == _signature(after) else ()
        self._known[name] = _KnownFile(signature, data)
        return data


def _signature(found: os.stat_result) -> tuple[int, ...]:
    """Who owns a file may set its `mtime`, but not its `ctime`."""
    return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
