"""Control groups, versions 1 and 2: finding them, limiting them, filling them, killing all in them.

A kernel's groups are one directory per hierarchy: `{"path", "version", "controllers"}`, plain data that
travels to the supervisor and into the record. Each hierarchy is optional; `prepare` says what is missing.
Cheap imports only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time

CONTROLLERS = ("cpuset", "cpu", "memory", "pids")
KEEPERS = "_keepers"
"""Group of all supervisors; no kernel id can be named so."""
PERIOD = 100_000
"""Microseconds of a CPU quota period, the kernel's default."""

_AT_ONCE = 64
"""Processes that are held at once to be killed: descriptors are few."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Group(TypedDict):
        """One directory of one hierarchy."""

        path: str
        version: int
        controllers: list[str]

    class Limits(TypedDict):
        """What to enforce; empty and zero mean no limit. Bytes, thousandths of a CPU, numbers."""

        cpus: list[int]
        memory_nodes: list[int]
        memory: int
        pids: int
        cpu_milli: int
        pool: list[int]


def read(path: str) -> str:
    with open(path, encoding="ascii") as stream:
        return stream.read().strip()


def write(path: str, text: str) -> None:
    """One write call, as cgroup files want it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def enable(path: str, controllers: list[str]) -> list[str]:
    """Hand controllers down to the children of a version 2 group; those it could."""
    for name in controllers:
        try:
            write(os.path.join(path, "cgroup.subtree_control"), f"+{name}")
        except OSError:
            continue
    enabled = read(os.path.join(path, "cgroup.subtree_control")).split()
    return [name for name in controllers if name in enabled]


def inherit_cpuset(path: str) -> None:
    """A version 1 cpuset begins empty and takes no process: give it what its parent has."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not read(os.path.join(path, name)):
            write(os.path.join(path, name), read(os.path.join(os.path.dirname(path), name)))


def below(groups: list[Group], name: str) -> list[Group]:
    return [{**group, "path": os.path.join(group["path"], name)} for group in groups]


def make(groups: list[Group]) -> None:
    """Make the groups, and the base they are in should whoever had the last kernel just have removed it."""
    for group in groups:
        for attempt in range(10):
            try:
                _make_one(group)
                break
            except FileNotFoundError:
                if attempt == 9:
                    raise


def _make_one(group: Group) -> None:
    base = os.path.dirname(group["path"])
    os.makedirs(group["path"], 0o755, exist_ok=True)
    if group["version"] == 1 and "cpuset" in group["controllers"]:
        inherit_cpuset(base)
        inherit_cpuset(group["path"])
    if group["version"] == 2 and group["controllers"]:
        _hand_down(base, group["controllers"])


def _hand_down(base: str, controllers: list[str]) -> None:
    enabled = read(os.path.join(base, "cgroup.subtree_control")).split()
    if not set(controllers) <= set(enabled):
        enable(base, controllers)


def limit(groups: list[Group], limits: Limits) -> None:
    """Bring the groups to these limits, in place if processes run in them. Raises OSError."""
    for group in groups:
        settings = _v2_settings(limits) if group["version"] == 2 else _v1_settings(limits)
        for name in group["controllers"]:
            for file, text in settings[name]:
                _write_setting(os.path.join(group["path"], file), text)


def _write_setting(path: str, text: str) -> None:
    """Write one setting.

    An optional file (starts with `?`) may be missing, and an empty cpuset is inherited in version 1.
    """
    folder, _, file = path.rpartition("/")
    optional = file.startswith("?")
    path = f"{folder}/{file.lstrip('?')}"
    if optional and not os.path.exists(path):
        return
    if not text and not optional:
        text = read(f"{os.path.dirname(folder)}/{file}")
    write(path, text or "\n")


def _cpu_list(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def _v1_settings(limits: Limits) -> dict[str, list[tuple[str, str]]]:
    memory = str(limits["memory"] or -1)
    shares = max(2, limits["cpu_milli"] * 1024 // 1000) if limits["cpu_milli"] else 1024
    swap = [("?memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", memory)]
    return {
        "cpuset": [
            ("?cpuset.memory_migrate", "1"),
            ("cpuset.mems", _cpu_list(limits["memory_nodes"])),
            ("cpuset.cpus", _cpu_list(limits["cpus"] or limits["pool"])),
        ],
        "cpu": [("cpu.shares", str(shares)), ("?cpu.cfs_quota_us", str(_quota(limits) or -1))],
        "memory": [*swap, ("?memory.memsw.limit_in_bytes", memory)],
        "pids": [("pids.max", str(limits["pids"] or "max"))],
    }


def _v2_settings(limits: Limits) -> dict[str, list[tuple[str, str]]]:
    memory = str(limits["memory"] or "max")
    weight = min(10_000, max(1, limits["cpu_milli"] // 10)) if limits["cpu_milli"] else 100
    return {
        "cpuset": [
            ("?cpuset.mems", _cpu_list(limits["memory_nodes"])),
            ("?cpuset.cpus", _cpu_list(limits["cpus"] or limits["pool"])),
        ],
        "cpu": [("cpu.weight", str(weight)), ("?cpu.max", f"{_quota(limits) or 'max'} {PERIOD}")],
        "memory": [("memory.max", memory), ("?memory.swap.max", "0" if limits["memory"] else "max")],
        "pids": [("pids.max", str(limits["pids"] or "max"))],
    }


def _quota(limits: Limits) -> int:
    """Microseconds per period for shared CPU; pinned kernels own their CPUs and need none."""
    if limits["cpus"] or not limits["cpu_milli"]:
        return 0
    return max(1000, limits["cpu_milli"] * PERIOD // 1000)


def join(groups: list[Group], pid: int = 0) -> None:
    for group in groups:
        write(os.path.join(group["path"], "cgroup.procs"), str(pid))


def vacate(groups: list[Group], into: list[Group]) -> None:
    """Move every process of the groups away: a version 2 group with processes hands no controllers down."""
    while left := members(groups):
        for pid in left:
            try:
                join(into, pid)
            except ProcessLookupError:
                continue


def members(groups: list[Group]) -> set[int]:
    found: set[int] = set()
    for group in groups:
        try:
            found.update(map(int, read(os.path.join(group["path"], "cgroup.procs")).split()))
        except (OSError, ValueError):
            continue
    return found


def kill(groups: list[Group], *, seconds: float = 30.0) -> bool:
    """Kill all processes of the groups, fork bombs too, and wait until none is left; False on time-out."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while left := members(groups):
        if time.monotonic() > deadline:
            return False
        _kill_once(groups, left)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


def _kill_once(groups: list[Group], left: set[int]) -> None:
    """Parents first, and forks are refused last: who sees his child end, or cannot fork, may still end as he
    likes before he is killed."""
    _write_each([group for group in groups if group["version"] == 2], "cgroup.kill", "1")
    numbers = sorted(left)
    for at in range(0, len(numbers), _AT_ONCE):
        with contextlib.ExitStack() as stack:
            held = _hold_processes(numbers[at : at + _AT_ONCE], stack)
            # A number may be somebody else's since it was read; who is held and still in there is meant.
            for pid in sorted(members(groups) & held.keys()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(held[pid], signal.SIGKILL)
    counted = [group for group in groups if group["version"] == 1 and "pids" in group["controllers"]]
    _write_each(counted, "pids.max", "0")


def _hold_processes(numbers: list[int], stack: contextlib.ExitStack) -> dict[int, int]:
    """Those that are there, each with a descriptor that is never another process's."""
    held = {}
    for pid in numbers:
        with contextlib.suppress(OSError):
            held[pid] = os.pidfd_open(pid)
            stack.callback(os.close, held[pid])
    return held


def _write_each(groups: list[Group], file: str, text: str) -> None:
    for group in groups:
        try:
            write(os.path.join(group["path"], file), text)
        except OSError:
            continue


def destroy(groups: list[Group], *, seconds: float = 10.0) -> bool:
    """Remove the (empty) groups; False when one stays.

    An exiting process may hold its group a moment longer.
    """
    deadline = time.monotonic() + seconds
    return all([_rmdir(group["path"], deadline) for group in groups])


def tidy(bases: list[Group], *, seconds: float) -> None:
    """Remove base groups in which nothing is any more; those that hold kernels or supervisors stay."""
    if destroy(below(bases, KEEPERS), seconds=seconds):
        destroy(bases, seconds=seconds / 4)


def _rmdir(path: str, deadline: float) -> bool:
    while True:
        try:
            os.rmdir(path)
            return True
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                return False
        time.sleep(0.002)


def oom_kills(groups: list[Group]) -> int:
    """How many processes of the groups were killed for want of memory so far."""
    for group in groups:
        if "memory" not in group["controllers"]:
            continue
        file = "memory.events" if group["version"] == 2 else "memory.oom_control"
        try:
            fields = dict(line.split() for line in read(os.path.join(group["path"], file)).splitlines())
        except OSError:
            return 0
        return int(fields.get("oom_kill", 0))
    return 0


def enforced(groups: list[Group], controller: str) -> int:
    """The memory or pids limit as the kernel has it; 0 means none."""
    files = {("memory", 1): "memory.limit_in_bytes", ("memory", 2): "memory.max"}
    for group in groups:
        if controller in group["controllers"]:
            text = read(os.path.join(group["path"], files.get((controller, group["version"]), "pids.max")))
            return 0 if text == "max" or int(text) >= 1 << 62 else int(text)
    return 0
