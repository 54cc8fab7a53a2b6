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
    from collections.abc import Callable, Iterable, Iterator
    from io import BufferedReader

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
                self._beside += stream.write(f"{now:.6f} {self._written}\n")
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


def _parts_at_once(folder: str) -> list[tuple[str, int]]:
    """Paths and inodes of the parts, oldest first, as they were at one moment: a rotation renames one after
    the other."""
    before = None
    while (found := [(path, _inode(path)) for path in parts(folder)]) != before:
        before = found
    return found


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def _opened_parts(folder: str) -> Iterator[dict[str, BufferedReader]]:
    """The parts by their paths, oldest first, as they were at one moment; only the last of them may still
    grow. Raises FileNotFoundError when the log is removed."""
    while True:
        with contextlib.ExitStack() as stack:
            found = {}
            for path in parts(folder):
                with contextlib.suppress(FileNotFoundError):  # renamed since it was listed
                    found[path] = stack.enter_context(open(path, "rb"))
            if _are_current(found, folder):
                yield found
                return


def _are_current(found: dict[str, BufferedReader], folder: str) -> bool:
    """Whether these are the parts now: nobody else gets the inode of what is open."""
    return [(path, os.fstat(each.fileno()).st_ino) for path, each in found.items()] == _parts_at_once(folder)


def read_all(folder: str) -> Iterator[bytes]:
    with _opened_parts(folder) as found:
        for stream in found.values():
            while data := stream.read(CHUNK):
                yield data


def last_lines(folder: str, count: int) -> Iterator[bytes]:
    """The last `count` lines, in pieces. A line that is longer than LONGEST may begin later, and says so."""
    with _opened_parts(folder) as found:
        streams = list(found.values())
        yield from _last_lines(streams, _size(streams[-1]) if streams else 0, count)


def _size(stream: BufferedReader) -> int:
    return os.fstat(stream.fileno()).st_size


def _last_lines(streams: list[BufferedReader], end: int, count: int) -> Iterator[bytes]:
    """`end`: how much of the last part counts."""
    blocks: list[bytes] = []
    missing, room = count, count * LONGEST
    for block in _blocks_backwards(streams, end) if count > 0 else ():
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


def _blocks_backwards(streams: list[BufferedReader], end: int) -> Iterator[bytes]:
    """The log in blocks, the last one first."""
    for stream in reversed(streams):
        position = end if stream is streams[-1] else _size(stream)
        while position > 0:
            step = min(CHUNK, position)
            position = stream.seek(position - step)
            yield stream.read(step)


class Follower:
    """Reads the log as it grows, across rotations: all of it, its last `tail` lines and what comes after, or
    what is written `since` a time.

    A part is read to its end before the next newer one is begun.
    """

    def __init__(self, folder: str, *, tail: int | None = None, since: float | None = None) -> None:
        self._folder = folder
        self._descriptor = -1
        self._before: list[bytes] = []
        """What comes before the place that `_descriptor` is at, in reverse order."""
        while not self._find_place(tail, since):
            pass

    def _find_place(self, tail: int | None, since: float | None) -> bool:
        """False when the log was rotated meanwhile, so that times were not its parts' own."""
        with _opened_parts(self._folder) as found:
            streams = list(found.values())
            if not streams:
                return True
            # One place for both: what comes before is asked for now, and what is behind it followed.
            end = _size(streams[-1])
            if tail is not None:
                self._before = [*_last_lines(streams, end, tail)][::-1]
                self._begin(streams[-1], end)
            elif since is not None:
                path, offset = position_of(found, since) or (next(reversed(found)), end)
                self._begin(found[path], offset)
                return _are_current(found, self._folder)
            else:
                self._begin(streams[0], 0)
            return True

    def _begin(self, stream: BufferedReader, offset: int) -> None:
        self._close()
        self._descriptor = os.dup(stream.fileno())
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self) -> bytes:
        """What is new; empty when nothing is. Raises FileNotFoundError when the log is removed."""
        while self._before:
            if data := self._before.pop():
                return data
        while True:
            # Asked before reading, so that no tail is missed.
            newest = self._is_newest()
            data = os.read(self._descriptor, CHUNK) if self._descriptor >= 0 else b""
            if data or newest or not self._advance():
                return data

    def _is_newest(self) -> bool:
        own = os.fstat(self._descriptor).st_ino if self._descriptor >= 0 else -1
        return own == _inode(os.path.join(self._folder, NAME))

    def _advance(self) -> bool:
        """Begin the part after the one being read; False where there is none yet."""
        own = os.fstat(self._descriptor).st_ino if self._descriptor >= 0 else -1
        with _opened_parts(self._folder) as found:
            streams = list(found.values())
            inodes = [os.fstat(stream.fileno()).st_ino for stream in streams]
            newer = streams[inodes.index(own) + 1 :] if own in inodes else streams
            if newer:
                self._begin(newer[0], 0)
            return bool(newer)


def position_of(found: Iterable[str], since: float) -> tuple[str, int] | None:
    """The part and offset where output of this time (at most a second earlier) begins; None without any.
    `found`: the parts, oldest first."""
    for path in found:
        folder, name = os.path.split(path)
        times = os.path.join(folder, TIMES + name.removeprefix(NAME))
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
    tail: int | None = None,
    since: float | None = None,
) -> Iterator[bytes]:
    """Chunks as they come, until the writer is no longer alive and everything it wrote was read."""
    with Follower(folder, tail=tail, since=since) as follower:
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
        if follow:
            yield from follow_growth(folder, alive, lambda: time.sleep(0.1), tail=tail)
        elif tail is not None:
            yield from last_lines(folder, tail)
        else:
            yield from read_all(folder)
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
