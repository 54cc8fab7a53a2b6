"""Which file system a folder is on, by the kernel's own list of mounts, and who has a folder mounted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from providers.storage.node.walk import FolderRefused, NotMounted

_ESCAPED = re.compile(r"\\([0-7]{3})")


class MountEntry(NamedTuple):
    """One line of a mountinfo."""

    device: str
    """Major and minor number: `8:1`."""
    root: str
    """The folder of that file system which is mounted."""
    point: str
    kind: str
    """Type of the file system: `xfs`, `nfs4`, ..."""
    source: str
    options: str
    """Of the file system as a whole."""


def read_mounts(process: str = "self") -> list[MountEntry]:
    """Every mount that a process sees, in order; those on top come last."""
    with open(f"/proc/{process}/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        return [parsed for parsed in map(_parsed, lines) if parsed is not None]


def _parsed(line: str) -> MountEntry | None:
    front, dash, back = line.rstrip("\n").partition(" - ")
    first, second = front.split(" "), back.split(" ")
    if not dash or len(first) < 6 or len(second) < 3:
        return None
    return MountEntry(
        first[2],
        _unescape(first[3]),
        _unescape(first[4]),
        second[0],
        _unescape(second[1]),
        ",".join(second[2:]),
    )


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 8)), text)


def mount_of(path: str) -> MountEntry:
    """The mount that a path is on."""
    real = os.path.realpath(path)
    found = None
    for each in read_mounts():
        inside = each.point == "/" or real == each.point or real.startswith(each.point + "/")
        if inside and (found is None or len(each.point) >= len(found.point)):
            found = each
    if found is None:
        raise FolderRefused(f"no mount holds {path}")
    return found


def check_type(root: str, kinds: Sequence[str]) -> MountEntry:
    """The mount that the root is on. Raises NotMounted when its type is none of `kinds` (any, when empty):
    what should be mounted there is not, and the node's own disk would be filled instead."""
    found = mount_of(root)
    if kinds and found.kind not in kinds:
        wanted = " or ".join(kinds)
        raise NotMounted(f"{root} is not mounted: it is on {found.kind} at {found.point}, not on {wanted}")
    return found


def processes_using(on: MountEntry, path: str) -> list[str]:
    """Processes that have a folder, or one below it, mounted somewhere, as containers have their volumes; one
    per view of the file system."""
    inside = os.path.join(on.root, os.path.relpath(os.path.realpath(path), on.point))
    inside = os.path.normpath(inside)
    own = os.readlink("/proc/self/ns/mnt")
    seen = {own}
    found = []
    for process in _processes():
        try:
            view = os.readlink(f"/proc/{process}/ns/mnt")
            if view in seen:
                continue
            seen.add(view)
            mounts = read_mounts(process)
        except OSError:
            continue
        if any(_covers(each, on, inside) for each in mounts):
            found.append(process)
    return found


def _covers(each: MountEntry, on: MountEntry, inside: str) -> bool:
    return each.device == on.device and (each.root == inside or each.root.startswith(inside + "/"))


def _processes() -> Iterator[str]:
    return (name for name in sorted(os.listdir("/proc")) if name.isdigit())


def below_mounts(path: str) -> set[str]:
    """Mount points below a folder, in this view."""
    real = os.path.realpath(path)
    return {each.point for each in read_mounts() if each.point.startswith(real + "/")}
