"""A size-bounded log: `log`, and older parts `log.1`, `log.2`, … Cheap imports only.

The supervisor writes with this.
"""

from __future__ import annotations

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "log"
CHUNK = 1 << 16


class LogWriter:
    """Appends to the log in `folder`; keeps at most `files` parts of `size` bytes.

    A full disk loses lines, never the kernel.
    """

    def __init__(self, folder: str, size: int, files: int) -> None:
        self._path = os.path.join(folder, NAME)
        self._size = max(4096, size)
        self._files = max(1, files)
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        self._written = os.fstat(self._descriptor).st_size

    def write(self, data: bytes) -> None:
        if self._written and self._written + len(data) > self._size:
            self._rotate()
        with contextlib.suppress(OSError):
            self._written += os.write(self._descriptor, data)

    def _rotate(self) -> None:
        os.close(self._descriptor)
        for number in range(self._files - 1, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(older):
                os.rename(older, f"{self._path}.{number}")
        if self._files == 1:
            os.unlink(self._path)
        self._open()


def parts(folder: str) -> list[str]:
    """The paths of the log's parts, oldest first."""
    names = [name for name in os.listdir(folder) if name == NAME or name.startswith(NAME + ".")]
    numbers = sorted((int(name.partition(".")[2] or 0) for name in names), reverse=True)
    return [os.path.join(folder, f"{NAME}.{number}" if number else NAME) for number in numbers]


def read_all(folder: str) -> Iterator[bytes]:
    for path in parts(folder):
        try:
            with open(path, "rb") as stream:
                while data := stream.read(CHUNK):
                    yield data
        except FileNotFoundError:
            continue


def last_lines(folder: str, count: int) -> bytes:
    """The last `count` lines, read from the end."""
    kept = b""
    for path in reversed(parts(folder)):
        if count <= 0 or kept.count(b"\n") > count:
            break
        with open(path, "rb") as stream:
            position = stream.seek(0, os.SEEK_END)
            while position > 0 and kept.count(b"\n") <= count:
                step = min(CHUNK, position)
                position = stream.seek(position - step)
                kept = stream.read(step) + kept
    lines = kept.splitlines(keepends=True)
    return b"".join(lines[max(0, len(lines) - count) :])


class Follower:
    """Reads the log as it grows, across rotations.

    A part is read to its end before the next newer one is begun.
    """

    def __init__(self, folder: str, *, from_end: bool) -> None:
        self._folder = folder
        found = parts(folder)
        self._descriptor = -1
        if found:
            self._descriptor = os.open(found[-1] if from_end else found[0], os.O_RDONLY | os.O_CLOEXEC)
            if from_end:
                os.lseek(self._descriptor, 0, os.SEEK_END)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self) -> bytes:
        """What is new; empty when nothing is."""
        while True:
            newer = self._newer()
            data = os.read(self._descriptor, CHUNK) if self._descriptor >= 0 else b""
            if data or newer is None:
                return data
            self._close()
            try:
                self._descriptor = os.open(newer, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return b""

    def _newer(self) -> str | None:
        """The part after the one being read, if there is one already.

        Asked before reading, so that no tail is missed.
        """
        found = parts(self._folder)
        if self._descriptor < 0:
            return found[0] if found else None
        own = os.fstat(self._descriptor).st_ino
        inodes = [_inode(path) for path in found]
        if own not in inodes:
            return found[0] if found else None
        position = inodes.index(own) + 1
        return found[position] if position < len(found) else None


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def grow(
    folder: str, alive: Callable[[], bool], pause: Callable[[], None], *, from_end: bool
) -> Iterator[bytes]:
    """Chunks as they come, until the writer is no longer alive and everything it wrote was read."""
    with Follower(folder, from_end=from_end) as follower:
        while True:
            living = alive()
            if data := follower.read():
                yield data
            elif not living:
                return
            else:
                pause()


def output(folder: str, alive: Callable[[], bool], *, follow: bool, tail: int | None) -> Iterator[bytes]:
    """All of a log, or its last `tail` lines, and with `follow` what comes after; ends when it is removed."""
    try:
        if tail is not None:
            yield last_lines(folder, tail)
        elif not follow:
            yield from read_all(folder)
        if follow:
            yield from grow(folder, alive, lambda: time.sleep(0.1), from_end=tail is not None)
    except FileNotFoundError:
        return
