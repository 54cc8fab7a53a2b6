"""How a kernel is asked to end, and what is said of how it did. Cheap imports only."""

from __future__ import annotations

import os

from providers.process.linux import files, procfs


def read_stop_request(folder: str, grace: float) -> tuple[float, int | None]:
    """Seconds of grace, and the number of a signal that gives notice, by the request in a kernel's folder;
    `grace` where it cannot be read."""
    try:
        request = files.read_json(os.path.join(folder, "stop.json"))
    except (OSError, ValueError):
        request = {}
    wanted, number = request.get("grace", grace), request.get("signal")
    seconds = float(wanted) if isinstance(wanted, int | float) else 0.0
    return seconds, number if isinstance(number, int) else None


def signal_group(pid: int, inner: int, number: int, *, tty: bool) -> None:
    """Ask the main process's own group; inside a sandbox that is the group of what it started. `inner`: the
    sandbox's first process, or 0."""
    target = inner or pid
    if inner and tty:
        # On a terminal the command leads a session of its own, below the sandbox's.
        target = next(iter(procfs.children(inner)), target)
    try:
        os.killpg(os.getpgid(target), number)
    except (ProcessLookupError, PermissionError):
        return


def explain_exit(status: int, *, oom: bool, why: str, sandboxed: bool) -> tuple[int, str]:
    """Exit code and reason of a wait status; `why` it was ended on purpose, if it was."""
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - 128 if sandboxed and 128 < code <= 192 else 0
    code = 128 - code if code < 0 else code
    if oom and code:
        return code, "out-of-memory"
    if why:
        return code, why
    return code, f"signal {number}" if number else "exit"
