"""The main process of a kernel as a command can enter it: held by its folder in /proc, which never becomes
another process's.

What is known of it comes from the machine's side: from bai's record, from /proc as the machine sees it, and
from the process that bai started itself. In a sandbox that one stays outside, out of the session's reach.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from providers.process.linux import procfs
from providers.process.sandbox.sandbox_init import PREFIX
from providers.process.supervision.identity import Identity, parse_identity
from schemas.problems.errors.kernel import NotRunning
from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:
    from providers.process.supervision.records import KernelRecord

FILTER = "filter.bpf"
"""The kernel's filter of system calls in its folder: an array of `struct sock_filter`."""
PATIENCE = 60.0
"""Seconds that a sandbox may take to be complete."""
_FILTERED = "2"
"""`Seccomp` of a process under a filter."""


@dataclass(frozen=True, slots=True)
class MainProcess:
    """`handle`: its folder in /proc, open; `sandboxed`: whether it has namespaces to enter."""

    handle: int
    sandboxed: bool
    identity: Identity
    cpus: tuple[int, ...]
    env: dict[str, str]
    filter: bytes


@contextlib.contextmanager
def hold_main_process(
    record: KernelRecord, reread: Callable[[], KernelRecord], is_sandboxed: Callable[[], bool]
) -> Iterator[MainProcess]:
    """The main process; waits for a sandbox that is being made, which is no place to enter yet.

    `is_sandboxed` says whether kernels here have a sandbox. Raises NotRunning, ProviderError.
    """
    deadline = time.monotonic() + PATIENCE
    while (found := _find_main_process(record, is_sandboxed)) is None:
        if not record.alive or record.state.get("phase") != "running" or time.monotonic() > deadline:
            raise NotRunning(provider="process", kernel=record.id)
        time.sleep(0.01)
        record = reread()
    try:
        yield found
    finally:
        os.close(found.handle)


def _find_main_process(record: KernelRecord, is_sandboxed: Callable[[], bool]) -> MainProcess | None:
    """None when there is nothing to enter, or not yet."""
    if not record.runs:
        return None
    filtered = _read_filter(record)
    sandboxed = bool(record.state.get("inner"))
    if not sandboxed and is_sandboxed():
        return None
    with contextlib.ExitStack() as stack:
        handle = _open_sandboxed_command(record) if sandboxed else _open_recorded(record, "pid")
        if handle is None:
            return None
        stack.callback(os.close, handle)
        try:
            status = procfs.fields(procfs.read_at(handle, "status"))
            who = parse_identity(status, procfs.read_at(handle, "uid_map"), procfs.read_at(handle, "gid_map"))
            env = _environment(record, sandboxed=sandboxed)
        except (ProcessLookupError, FileNotFoundError, KeyError):
            return None
        except ValueError as error:
            raise ProviderError(provider="process", why=f"{record.id} cannot be entered: {error}") from error
        if env is None or (filtered and status.get("Seccomp") != _FILTERED):
            return None
        if sandboxed and record.spec.uid is not None and os.geteuid() == 0 and who.uid != record.spec.uid:
            return None
        stack.pop_all()
        cpus = procfs.cpulist(status["Cpus_allowed_list"])
        return MainProcess(handle, sandboxed, who, cpus, env, filtered)


def _open_recorded(record: KernelRecord, name: str) -> int | None:
    """The process that bai's record names: number and start time."""
    started = record.state.get(f"{name}_start")
    try:
        handle = procfs.open_process(int(record.state.get(name) or 0))
    except OSError:
        return None
    if started and procfs.started_at(handle) == started:
        return handle
    os.close(handle)
    return None


def _open_sandboxed_command(record: KernelRecord) -> int | None:
    """The command, a child of the sandbox's first process. Until it is there the sandbox is being made: its
    files are still the machine's, and its power as well."""
    first = _open_recorded(record, "inner")
    if first is None:
        return None
    inner = int(record.state["inner"])
    try:
        for pid in procfs.children(inner)[:1]:
            handle = procfs.open_process(pid)
            if procfs.parent_at(handle) == inner and procfs.started_at(first) == record.state["inner_start"]:
                return handle
            os.close(handle)
    except OSError:
        return None
    finally:
        os.close(first)
    return None


def _environment(record: KernelRecord, *, sandboxed: bool) -> dict[str, str] | None:
    """What bai started the kernel with, secrets included, from the process that it started; what is recorded
    counts before that, as without a sandbox this process is the session's. None while it has none, as it is
    becoming another program."""
    handle = _open_recorded(record, "pid")
    if handle is None:
        raise ProcessLookupError
    try:
        text = procfs.environment_at(handle)
    except PermissionError:
        text = ""
    finally:
        os.close(handle)
    if text is None:
        return None
    before = PREFIX if sandboxed else ""
    entries = (entry.removeprefix(before) for entry in text.split("\0") if entry.startswith(before))
    pairs = (entry.partition("=") for entry in entries if "=" in entry)
    return {**{name: value for name, _, value in pairs if name}, **record.spec.env}


def _read_filter(record: KernelRecord) -> bytes:
    try:
        return (record.folder / FILTER).read_bytes()
    except FileNotFoundError:
        return b""
