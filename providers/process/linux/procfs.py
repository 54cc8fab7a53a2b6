"""Processes as /proc shows them.

A process is named by pid and start time, so that a reused pid is never taken for it.
"""

from __future__ import annotations

import os
import select
import signal
import time

MARKER = "BAI_KERNEL"
"""Environment variable that every process of a kernel starts with: `<root>/<kernel id>`."""
_LOOKS = 20
"""Least looks at processes for a mark, however long they take."""


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()


def _stat(pid: int) -> list[str]:
    """Empty where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            return _stat_fields(stream.read())
    except OSError:
        return []


def _stat_fields(text: str) -> list[str]:
    """From the third on: the second is a name in brackets, which may hold anything."""
    return text.rpartition(")")[2].split()


def start_time(pid: int) -> int:
    """Clock ticks after boot at which the process started; 0 when there is none (or only its zombie)."""
    fields = _stat(pid)
    return 0 if not fields or fields[0] in "ZX" else int(fields[19])


def parent(pid: int) -> int:
    try:
        return int(_stat(pid)[1])
    except IndexError:
        return 0


def cpu_ticks(pid: int) -> tuple[int, int]:
    """Clock ticks that the process used, and that its ended and awaited children did; zeros if it is gone."""
    try:
        fields = _stat(pid)
        return int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    except IndexError:
        return 0, 0


def children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            return [int(word) for word in stream.read().split()]
    except OSError:
        return [other for other in pids() if parent(other) == pid]


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting.extend(children(one))
    return found


def marked(mark: str, *, seconds: float = 1.0) -> list[int]:
    """Processes whose initial environment carries the kernel's mark.

    Those of other users cannot be read and are not ours. Processes are listed until nobody is new, as one may
    end after it forked another that the list lacks; one that is becoming another program is looked at again
    until it is that. Both for so many `seconds` at most, and for `_LOOKS`, should the machine stand still
    meanwhile: who forks or executes for ever holds nobody up.
    """
    wanted = f"{MARKER}={mark}".encode()
    deadline = time.monotonic() + seconds
    found: list[int] = []
    settled: set[int] = set()
    looks = 0
    while new := set(pids()) - settled:
        looks += 1
        for pid in new:
            text = _environment(pid)
            if text and wanted in text.split(b"\0"):
                found.append(pid)
            if text != b"" or not _becomes_program(_stat(pid)):
                settled.add(pid)
        if looks >= _LOOKS and time.monotonic() > deadline:
            break
        if not new & settled:
            time.sleep(0.001)
    return found


def environment(pid: int) -> list[bytes]:
    """Empty where it cannot be read, and for as long as the process is becoming another program."""
    text = _environment(pid)
    return text.split(b"\0") if text else []


def _environment(pid: int) -> bytes | None:
    """None where it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return stream.read()
    except OSError:
        return None


def _becomes_program(fields: list[str]) -> bool:
    """Whether a process whose environment was just read as empty is between two programs, or was then; by its
    `_stat`.

    exec tells where the environment ends, and then where the code begins (binfmt_elf.c, load_elf_binary).
    Who may not read that is told 1.
    """
    try:
        memory, code, first, end = (int(fields[index]) for index in (20, 23, 47, 48))
    except (ValueError, IndexError):
        return False
    return memory > 0 and (code == 0 or end > first)


def send(pid: int, started: int, number: int) -> bool:
    """Signal exactly this process; False when it is no longer there."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_time(pid) != started or not started:
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def await_end(pid: int, started: int, *, seconds: float = 30.0) -> bool:
    """Wait until exactly this process has ended, and what should end with it was told; False on time-out."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        if start_time(pid) != started:
            return True
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        return bool(poller.poll(seconds * 1000))
    finally:
        os.close(handle)


def kill_until_gone(find: list[str], own: int, *, seconds: float = 30.0) -> bool:
    """SIGKILL all processes with one of the marks in `find`, again until there are none; False on time-out.

    `own` is a process never to be killed (the caller).
    """
    deadline = time.monotonic() + seconds
    pause = 0.001
    while True:
        alive = [pid for mark in find for pid in marked(mark) if pid != own and start_time(pid)]
        if not alive:
            return True
        if time.monotonic() > deadline:
            return False
        for pid in alive:
            send(pid, start_time(pid), signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as stream:
            return fields(stream.read())
    except OSError:
        return {}


def fields(text: str) -> dict[str, str]:
    """The lines `name: value` of a `status` file."""
    pairs = (line.split(":", 1) for line in text.split("\n") if ":" in line)
    return {name: value.strip() for name, value in pairs}


def open_process(pid: int) -> int:
    """A descriptor of its folder in /proc: of this process for good, whoever gets its number later.

    Raises OSError.
    """
    return os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def read_at(handle: int, name: str) -> str:
    """A file of a process held by `open_process`. Raises OSError when the process is gone."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=handle)
    with open(descriptor, encoding="utf-8", errors="surrogateescape", newline="") as stream:
        return stream.read()


def environment_at(handle: int) -> str | None:
    """The initial environment of a process held by `open_process`, each entry ended by NUL; None for as long
    as it is becoming another program. Raises OSError when it is gone, or may not be read."""
    text = read_at(handle, "environ")
    return None if not text and _becomes_program(_stat_fields(read_at(handle, "stat"))) else text


def started_at(handle: int) -> int:
    """As `start_time`, of a process held by `open_process`."""
    try:
        found = _stat_fields(read_at(handle, "stat"))
    except OSError:
        return 0
    return 0 if found[0] in "ZX" else int(found[19])


def parent_at(handle: int) -> int:
    """As `parent`, of a process held by `open_process`."""
    try:
        return int(_stat_fields(read_at(handle, "stat"))[1])
    except OSError:
        return 0


def cpulist(text: str) -> tuple[int, ...]:
    """`0-2,5` → (0, 1, 2, 5)."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)
