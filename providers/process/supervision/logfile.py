"""A size-bounded log: `log`, and older parts `log.1`, `log.2`, … Cheap imports only.

Beside each part, `times`, `times.1`, … say when what was written: a line per second with output, time and
offset.

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
TIMES = "times"
TIME_GRAIN = 1.0
"""Seconds between two notes of the time."""
CHUNK = 1 << 16
LONGEST = 1 << 18
"""Bytes of a line, on average, that its end is worth when only the last lines are wanted."""
CUT = b"[the beginning of a very long line is left out]\n"


class LogWriter:
    """Appends to the log in `folder`; keeps at most `files` parts of `size` bytes, their times included.

    A full disk loses lines, never the kernel.
    """

    def __init__(self, folder: str, size: int, files: int) -> None:
        self._path = os.path.join(folder, NAME)
        self._times = os.path.join(folder, TIMES)
        self._noted = 0.0
        self._beside = 0
        self._size = max(4096, size)
        self._files = max(1, files)
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        self._written = os.fstat(self._descriptor).st_size

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            if self._descriptor < 0:
                self._open()
            elif self._written and self._written + self._beside + len(data) > self._size:
                self._rotate()
            self._note_time(time.time())
            self._written += os.write(self._descriptor, data)

    def _note_time(self, now: float) -> None:
        if not self._noted <= now < self._noted + TIME_GRAIN:
            with open(self._times, "a", encoding="ascii") as stream:
                self._beside += stream.write(f"{now:.3f} {self._written}\n")
            self._noted = now

    def _rotate(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        self._noted, self._beside = 0.0, 0
        for path in (self._times, self._path):
            for number in range(self._files - 1, 0, -1):
                older = path if number == 1 else f"{path}.{number - 1}"
                if os.path.exists(older):
                    os.rename(older, f"{path}.{number}")
            if self._files == 1:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
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


def last_lines(folder: str, count: int) -> Iterator[bytes]:
    """The last `count` lines, in pieces. A line that is longer than LONGEST may begin later, and says so."""
    blocks: list[bytes] = []
    missing, room = count, count * LONGEST
    for block in _blocks_backwards(folder) if count > 0 else ():
        if not blocks and block.endswith(b"\n"):
            missing += 1
        found = block.count(b"\n")
        if found >= missing:
            blocks.append(block.split(b"\n", found - missing + 1)[-1])
            break
        missing -= found
        if len(block) >= room:
            blocks += (block[-room:], CUT)
            break
        room -= len(block)
        blocks.append(block)
    yield from reversed(blocks)


def _blocks_backwards(folder: str) -> Iterator[bytes]:
    """The log in blocks, the last one first."""
    for path in reversed(parts(folder)):
        with open(path, "rb") as stream:
            position = stream.seek(0, os.SEEK_END)
            while position > 0:
                step = min(CHUNK, position)
                position = stream.seek(position - step)
                yield stream.read(step)


class Follower:
    """Reads the log as it grows, across rotations.

    A part is read to its end before the next newer one is begun.
    """

    def __init__(self, folder: str, *, from_end: bool = False, since: float | None = None) -> None:
        self._folder = folder
        found = parts(folder)
        self._descriptor = -1
        start = None if since is None else position_of(folder, since)
        if start is not None:
            self._descriptor = os.open(start[0], os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(self._descriptor, start[1], os.SEEK_SET)
        elif found:
            from_end = from_end or since is not None
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


def position_of(folder: str, since: float) -> tuple[str, int] | None:
    """The part and offset where output of this time (at most a second earlier) begins; None without any."""
    for path in parts(folder):
        times = os.path.join(folder, TIMES + os.path.basename(path).removeprefix(NAME))
        try:
            with open(times, encoding="ascii") as stream:
                notes = [line.split() for line in stream]
        except FileNotFoundError:
            return path, 0
        for note in notes:
            if len(note) == 2 and float(note[0]) > since - TIME_GRAIN:
                return path, int(note[1])
    return None


def follow_growth(
    folder: str,
    alive: Callable[[], bool],
    pause: Callable[[], None],
    *,
    from_end: bool = False,
    since: float | None = None,
) -> Iterator[bytes]:
    """Chunks as they come, until the writer is no longer alive and everything it wrote was read."""
    with Follower(folder, from_end=from_end, since=since) as follower:
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
            yield from last_lines(folder, tail)
        elif not follow:
            yield from read_all(folder)
        if follow:
            yield from follow_growth(folder, alive, lambda: time.sleep(0.1), from_end=tail is not None)
    except FileNotFoundError:
        return


def output_since(folder: str, alive: Callable[[], bool], since: float, *, follow: bool) -> Iterator[bytes]:
    """What was written from a time on, in seconds since the epoch; ends as `output` does."""
    try:
        yield from follow_growth(
            folder, alive if follow else lambda: False, lambda: time.sleep(0.1), since=since
        )
    except FileNotFoundError:
        return
