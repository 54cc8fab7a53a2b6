"""Secrets as files of one folder."""

from __future__ import annotations

import os
import stat

from providers.secret_stores.base import MAX_BYTES, SecretUnreadable, decode_secret

_OPEN = os.O_RDONLY | os.O_CLOEXEC


class DirectoryBackend:
    """The plain files of a folder; a trailing line break is dropped."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, entry: str) -> str:
        if "/" in entry or entry.startswith("."):
            raise SecretUnreadable("this is no name of a file in a folder")
        try:
            return decode_secret(self._read_bytes(entry)).removesuffix("\n").removesuffix("\r")
        except OSError as error:
            raise SecretUnreadable((error.strerror or str(error)).lower()) from None

    def _read_bytes(self, entry: str) -> bytes:
        folder = os.open(self._path, _OPEN | os.O_DIRECTORY)
        try:
            if os.fstat(folder).st_mode & stat.S_IWOTH:
                raise SecretUnreadable("everybody may write to its folder: chmod o-w")
            # Looked at before it is opened, which alone may do something to a device; and after, as it may
            # have been exchanged.
            _require_regular_file(os.stat(entry, dir_fd=folder, follow_symlinks=False))
            opened = os.open(entry, _OPEN | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
            with os.fdopen(opened, "rb") as file:
                _require_regular_file(os.fstat(opened))
                return file.read(MAX_BYTES + 1)
        finally:
            os.close(folder)


def _require_regular_file(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise SecretUnreadable("it is a symbolic link, which is not followed")
    if not stat.S_ISREG(found.st_mode):
        raise SecretUnreadable("it is not a plain file")
    if found.st_nlink != 1:
        raise SecretUnreadable("the file has other names elsewhere (hard links)")
