"""Secrets as files of one folder."""

from __future__ import annotations

import os
import stat

from providers.secret_stores.base import MAX_BYTES, Unreadable, text

_OPEN = os.O_RDONLY | os.O_CLOEXEC


class Directory:
    """The plain files of a folder; a trailing line break is dropped."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, entry: str) -> str:
        if "/" in entry or entry.startswith("."):
            raise Unreadable("this is no name of a file in a folder")
        try:
            return text(self._bytes(entry)).removesuffix("\n").removesuffix("\r")
        except OSError as error:
            raise Unreadable((error.strerror or str(error)).lower()) from None

    def _bytes(self, entry: str) -> bytes:
        folder = os.open(self._path, _OPEN | os.O_DIRECTORY)
        try:
            if os.fstat(folder).st_mode & stat.S_IWOTH:
                raise Unreadable("everybody may write to its folder: chmod o-w")
            # Looked at before it is opened, which alone may do something to a device; and after, as it may
            # have been exchanged.
            _plain(os.stat(entry, dir_fd=folder, follow_symlinks=False))
            opened = os.open(entry, _OPEN | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
            with os.fdopen(opened, "rb") as file:
                _plain(os.fstat(opened))
                return file.read(MAX_BYTES + 1)
        finally:
            os.close(folder)


def _plain(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise Unreadable("it is a symbolic link, which is not followed")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("it is not a plain file")
    if found.st_nlink != 1:
        raise Unreadable("the file has other names elsewhere (hard links)")
