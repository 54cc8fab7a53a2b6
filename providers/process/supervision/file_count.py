"""Counting what a kernel's own files take, where no quota holds them. Cheap imports only.

Each count is a process of its own, with little memory, low priority and the scratch folder alone: the
supervisor listens meanwhile, and no tree of files can harm it. The more files there are, the longer are the
pauses; the less room is left, the shorter.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator

from providers.process.supervision import supervisor_setup
from providers.storage.node import usage

LEAST, MOST = 2.0, 30.0
"""Seconds between two counts."""
SPEED = 4 << 30
"""Bytes a second: so much is expected to be written until the next count."""
SHARE = 20
"""A count is followed by a pause of at least so many times its own length."""
GRACE = 10.0
"""Seconds that a kernel has at most, after its stop signal: it may go on writing."""
_MEMORY = 256 << 20
_FILES = 4096
_CLONE_NEWUSER = 0x10000000
_DELETED = " (deleted)"


def pause(left: int, took: float) -> float:
    """Seconds until the next count: `left` bytes may still be used, the last one `took` so many seconds."""
    return max(SHARE * took, min(MOST, max(LEAST, left / SPEED)))


class ScratchCounter:
    """The counts of one kernel, in whose `folder` its limit stands; `home`: its scratch folder as it sees it
    itself. `due`: when the next one begins, on the monotonic clock; None for never.
    `answer`: a descriptor to be waited for while a count is under way, else -1."""

    def __init__(self, folder: str, home: str, *, active: bool = True) -> None:
        self._folder = folder
        self._active = active
        self._home = home
        self._limit = 0
        self._began = 0.0
        self._said = b""
        self._over = False
        self.due: float | None = None
        self.answer = -1

    def renew(self) -> None:
        """From now on the limit is what it says now: an update may have changed it."""
        if self._active:
            with contextlib.suppress(OSError, ValueError):
                self._limit = supervisor_setup.scratch_limit(self._folder)
            self.due = time.monotonic() if self._limit and self.answer < 0 else None

    def begin(self, processes: Iterable[int]) -> None:
        """Start a count. `processes`: the kernel's, whose deleted files count while they are open."""
        self.due, self._said = None, b""
        self._began = time.monotonic()
        pids = list(processes)
        own = os.getpid()
        out, into = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if os.fork() == 0:
                scratch = os.path.join(self._folder, "scratch")
                _count_and_exit(scratch, self._home, self._limit, pids, into, own)
            self.answer = out
        except OSError:
            # The machine has no room for a process now, which is no fault of the kernel's.
            self.due = self._began + MOST
            os.close(out)
        finally:
            os.close(into)

    def read_answer(self) -> str:
        """Read what the count has to say: why the kernel must end, empty when it need not, or not yet.

        A file that is moved while it is counted may count twice: what is too much is counted once more.
        """
        try:
            data = os.read(self.answer, 4096)
        except BlockingIOError:
            return ""
        self._said += data
        if data:
            return ""
        os.close(self.answer)
        self.answer = -1
        if not self._limit:
            return ""
        why, used = self._judge()
        again = bool(why) and not self._over
        self._over = bool(why)
        now = time.monotonic()
        self.due = now if again else now + pause(self._limit - used, now - self._began)
        return "" if again else why

    def _judge(self) -> tuple[str, int]:
        try:
            found = json.loads(self._said)
            used, whole = int(found["used"]), bool(found["whole"])
        except (ValueError, KeyError, TypeError):
            used, whole = 0, False
        if used > self._limit:
            return f"scratch-full: {_mib(used)} used, {_mib(self._limit)} allowed", used
        return ("" if whole else "scratch-full: its files cannot be counted"), used


def _mib(size: int) -> str:
    return f"{-(-size >> 20)}MiB"


def _count_and_exit(scratch: str, home: str, limit: int, pids: list[int], into: int, supervisor: int) -> None:
    """Be the process that counts; never returns."""
    from providers.process.linux import parent_death

    try:
        parent_death.end_with_parent(supervisor)
        folder = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        _confine(keep={folder, into})
        open_ones = _deleted_bytes(folder, home, pids, 2 * limit)
        _become_namespace_root()
        used, whole = usage.count_usage(
            folder, float("inf"), least=usage.SMALLEST, enough=2 * limit, before=open_ones
        )
        os.write(into, json.dumps({"used": used, "whole": whole or used > limit}).encode())
    finally:
        os._exit(0)


def _confine(keep: set[int]) -> None:
    """Nothing of the supervisor's stays open, least of all its lock."""
    first = 0
    for descriptor in sorted(keep):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    signal.set_wakeup_fd(-1)
    with contextlib.suppress(OSError):
        os.nice(10)
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def _become_namespace_root() -> None:
    """Who is not root sees into folders of his own that he may not read, as the root of a namespace."""
    import ctypes

    user, group = os.geteuid(), os.getegid()
    if user == 0 or ctypes.CDLL(None).unshare(_CLONE_NEWUSER) != 0:
        return
    maps = {"setgroups": "deny", "uid_map": f"0 {user} 1", "gid_map": f"0 {group} 1"}
    with contextlib.suppress(OSError):
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)


def _deleted_bytes(folder: int, home: str, pids: list[int], enough: int) -> int:
    """Bytes of files that have no name any more and are still open, or in memory."""
    device = os.fstat(folder).st_dev
    seen: set[int] = set()
    total = 0
    for path in _open_paths(pids):
        try:
            found = os.stat(path)
            if found.st_nlink or found.st_dev != device or found.st_ino in seen:
                continue
            name = os.readlink(path)
        except OSError:
            continue
        if name.startswith(f"{home}/") and name.endswith(_DELETED):
            seen.add(found.st_ino)
            total += max(usage.SMALLEST, found.st_blocks * 512)
        if total > enough:
            break
    return total


def _open_paths(pids: list[int]) -> Iterator[str]:
    for pid in pids:
        for kind in ("fd", "map_files"):
            with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/{kind}") as entries:
                for entry in entries:
                    yield entry.path
