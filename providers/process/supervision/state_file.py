"""What a supervisor writes down, on a full disk too: room for one more record is always kept.

Cheap imports only.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from providers.process.linux import files

SPARE = 4096
"""Bytes that are kept for a record that finds the disk full: a block, which each record has as well."""
RETRY_AFTER = 0.5
"""Seconds until a record that could not be written is tried again."""


class StateFile:
    """The record `state.json` in `folder`. `due`: when what could not be written is tried again, on the
    monotonic clock; None when everything is written."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "state.json")
        self._spare = os.path.join(folder, "state.spare")
        self._before = os.path.join(folder, "state.before")
        self.due: float | None = None

    def write(self, record: dict[str, object]) -> None:
        """Raises OSError."""
        text = json.dumps(record)
        try:
            files.write_atomically(self._path, text)
        except OSError:
            if not self._write_over_spare(text.encode()):
                raise
        self.due = None

    def save(self, record: dict[str, object]) -> None:
        """The same, or later: a full disk must not cost a kernel, nor what is known of its end."""
        try:
            self.write(record)
            self.keep_room()
        except OSError:
            # Where somebody has deleted the folder, there is nothing to be known any more.
            there = os.path.isdir(os.path.dirname(self._path))
            self.due = time.monotonic() + RETRY_AFTER if there else None

    def _write_over_spare(self, data: bytes) -> bool:
        """Over bytes that the file system has given already."""
        if len(data) > SPARE:
            return False
        try:
            descriptor = os.open(self._spare, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if os.write(descriptor, data.ljust(SPARE)) != SPARE:
                return False
            os.fsync(descriptor)
            self._swap_spare()
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _swap_spare(self) -> None:
        """The bytes of the record until now are the next one's room: a disk may stay full."""
        with contextlib.suppress(OSError):
            os.unlink(self._before)
        with contextlib.suppress(OSError):
            os.link(self._path, self._before)
        os.rename(self._spare, self._path)
        with contextlib.suppress(OSError):
            os.rename(self._before, self._spare)

    def keep_room(self) -> None:
        """Where there is some, for the next time."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            descriptor = os.open(self._spare, flags, 0o600)
            whole = False
            try:
                whole = os.write(descriptor, b" " * SPARE) == SPARE
            finally:
                os.close(descriptor)
                if not whole:
                    os.unlink(self._spare)
