"""What is said when a file system has no room left: which, how much, and what to do."""

from __future__ import annotations

import errno
import os

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_LITTLE = 256 * 1024
"""Bytes below which a database's own log and index do not fit any more."""
HINT = "nothing that was there before is lost, and nothing is left half-written; make room there, then again"


def is_disk_full(error: BaseException) -> bool:
    """Whether an error says that there is no room, or that a quota is used up."""
    return isinstance(error, OSError) and error.errno in _FULL


def is_nearly_full(path: str | os.PathLike[str]) -> bool:
    """Whether hardly anything more can be written below or beside `path`."""
    free, _, files = _free_space(_nearest_existing(path))
    return free < _LITTLE or files == 0


def describe_free_space(path: str | os.PathLike[str]) -> str:
    """`the file system at /var has 0 of 8192 KiB free`; about the nearest folder that is there."""
    place = _nearest_existing(path)
    free, size, files = _free_space(place)
    nodes = ", and room for no further file" if files == 0 else ""
    quota = "" if free < _LITTLE or nodes else " (is a quota used up?)"
    return f"the file system at {_mount_point(place)} has {free >> 10} of {size >> 10} KiB free{nodes}{quota}"


def _nearest_existing(path: str | os.PathLike[str]) -> str:
    found = os.path.abspath(path)
    while not os.path.exists(found) and os.path.dirname(found) != found:
        found = os.path.dirname(found)
    return found


def _free_space(path: str) -> tuple[int, int, int | None]:
    """Bytes free for this user, bytes in all, and how many files may yet be made; None: as many as you
    like."""
    found = os.statvfs(path)
    files = found.f_favail if found.f_files else None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, files


def _mount_point(path: str) -> str:
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path
