"""`tar`, run where the files are: its arguments, and what it complains about. Those of GNU, busybox and BSD
have these options."""

from __future__ import annotations

import posixpath

from schemas.problems.text import printable

LONGEST_COMPLAINT = 4000
"""Most bytes of an error message that are kept."""


def pack_command(path: str) -> tuple[str, ...]:
    """Writes a file or folder; members are named from the path's last part on."""
    folder, name = split_path(path)
    return ("tar", "-C", folder, "-cf", "-", "--", name)


def unpack_command(folder: str) -> tuple[str, ...]:
    """Reads an archive; what is unpacked belongs to who runs it."""
    return ("tar", "-C", folder, "-o", "-xpf", "-")


def split_path(path: str) -> tuple[str, str]:
    """The folder to go to, and what to pack there: `/a/b` → `/a`, `b`; `/a/b/` and `/a/b/.` → `/a/b`, `.`"""
    head, tail = posixpath.split(path)
    if tail in ("", ".", ".."):
        return path or "/", "."
    return head or "/", tail


def first_complaint(said: bytes, code: int) -> str:
    """The first line of what it wrote to standard error, or its exit code."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    return printable(lines[0].removeprefix("tar: ")) if lines else f"tar ended with {code}"
