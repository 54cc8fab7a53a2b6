"""Which process is this, and is that one still there: so that the lease of a killed apply need not be waited
for.

A process is named by the machine's boot, its PID namespace, its PID and its start time: PIDs come again, this
does not. Of another machine's or namespace's processes nothing is known, and what is not known counts as
alive.
"""

from __future__ import annotations

import os
from pathlib import Path

from schemas.values.naturals import parse_natural


def current_process_identity() -> str:
    """A name for this process; empty where /proc cannot tell."""
    return _process_identity(os.getpid()) or ""


def is_process_gone(process: str) -> bool:
    """True only when the process named so is certainly not running any more."""
    if not is_process_near(process):
        return False
    pid = parse_natural(process.split("/")[2])
    return pid is None or _process_identity(pid) != process


def is_process_near(process: str) -> bool:
    """Whether this process could know of the one named so: they share a boot and a PID namespace."""
    mine = current_process_identity()
    return bool(process and mine) and process.split("/")[:2] == mine.split("/")[:2]


def _process_identity(pid: int) -> str | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
        # The command name stands in parentheses and may hold anything; the 22nd field is the start time.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return f"{boot}/{namespace}/{pid}/{fields[19]}"
