"""Processes of this machine, by their names and command lines: each may end while one looks at it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def having(word: str) -> dict[int, list[str]]:
    """The command lines that have it in one of their words, by process."""
    found = {int(each): _read(f"{each}/cmdline") for each in os.listdir("/proc") if each.isdecimal()}
    return {pid: line.removesuffix("\0").split("\0") for pid, line in found.items() if word in line}


def child_called(pid: int, name: str) -> int | None:
    """Of all threads' children one that executes a program of this name, if there is one."""
    return next((each for each in children(pid) if _read(f"{each}/comm").strip() == name), None)


def children(pid: int) -> list[int]:
    """Of all its threads; none of a process that has gone."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read(f"{pid}/task/{thread}/children").split())
    return found


def _read(file: str) -> str:
    """Empty where whoever it is about is gone, before it is opened or after."""
    try:
        return Path("/proc", file).read_text(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError):
        return ""
