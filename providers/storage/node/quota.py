"""Limits on what a folder may hold, by whatever its file system has for it.

XFS and ext4: project quotas. CephFS: an extended attribute of the folder. Lustre and Weka: their own
commands, where they are installed. Others have nothing that could be set from here, and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from providers.storage.node import project
from providers.storage.node.mounts import MountEntry
from providers.storage.node.walk import FolderRefused, reference

_CEPH = "ceph.quota.max_bytes"
_NETWORK = ("nfs", "nfs4", "cifs", "smb3")


class QuotaFolder(NamedTuple):
    """A folder as quotas need it: open, the one above it too, its path, and a name for it."""

    mount: MountEntry
    folder: int
    above: int
    path: str
    name: str


class QuotaLimit(NamedTuple):
    """What holds a folder's limit, or why nothing does; bytes."""

    means: str = ""
    unheld: str = ""
    most: int = 0
    used: int | None = None


def means_of(mount: MountEntry) -> QuotaLimit:
    """What could hold a limit on this file system."""
    kind = mount.kind
    if kind in ("xfs", "ext4"):
        why = project.quota_problem(mount)
        return QuotaLimit(unheld=why) if why else QuotaLimit("project")
    if kind in ("ceph", "fuse.ceph", "fuse.ceph-fuse"):
        return QuotaLimit("ceph")
    if kind == "lustre":
        return _limit_by_tool("lfs", "lustre")
    if kind == "wekafs":
        return _limit_by_tool("weka", "weka")
    if kind in _NETWORK:
        return QuotaLimit(unheld=f"{kind} has no quotas that a client can set; set one on the server")
    return QuotaLimit(unheld=f"{kind} has no quotas for folders")


def _limit_by_tool(program: str, means: str) -> QuotaLimit:
    return (
        QuotaLimit(means)
        if shutil.which(program)
        else QuotaLimit(unheld=f"the command {program} is not installed")
    )


def read_limit(target: QuotaFolder) -> QuotaLimit:
    """The limit that a folder has now, and its use where the file system counts it."""
    found = means_of(target.mount)
    if not found.means:
        return found
    try:
        return _READERS[found.means](target)
    except (OSError, ValueError, FolderRefused) as error:
        return QuotaLimit(unheld=f"its quota cannot be read: {_error_text(error)}")


def set_limit(target: QuotaFolder, most: int) -> str:
    """Set or (0) lift the limit. Gives why that cannot be done; empty when it was. Raises FolderRefused."""
    found = means_of(target.mount)
    if not found.means:
        return found.unheld if most else ""
    try:
        _SETTERS[found.means](target, most)
    except OSError as error:
        if isinstance(error, PermissionError):
            return "quotas are root's to set on this node"
        raise FolderRefused(f"its quota cannot be set: {_error_text(error)}") from error
    return ""


def _error_text(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


# Project quotas


def _look_project(target: QuotaFolder) -> QuotaLimit:
    mine = project.own_project(target.folder, target.above)
    if not mine:
        return QuotaLimit("project")
    try:
        most, used = project.read_limits(target.mount, target.folder, mine)
    except (FileNotFoundError, ProcessLookupError):
        return QuotaLimit("project")
    return QuotaLimit("project", "", most, used)


def _set_project(target: QuotaFolder, most: int) -> None:
    project.limit_folder(target.mount, target.folder, target.above, target.name, most)


# CephFS


def _look_ceph(target: QuotaFolder) -> QuotaLimit:
    try:
        most = int(os.getxattr(reference(target.folder), _CEPH))
    except OSError:  # it has none
        most = 0
    return QuotaLimit("ceph", "", most)


def _set_ceph(target: QuotaFolder, most: int) -> None:
    os.setxattr(reference(target.folder), _CEPH, str(most).encode())


# Lustre


def _look_lustre(target: QuotaFolder) -> QuotaLimit:
    mine = _lustre_project(target)
    if not mine:
        return QuotaLimit("lustre")
    words = _run(["lfs", "quota", "-q", "-p", str(mine), target.mount.point]).split()
    numbers = [word.strip("[]*") for word in words[1:]]
    return QuotaLimit("lustre", "", int(numbers[2]) * 1024, int(numbers[0]) * 1024)


def _set_lustre(target: QuotaFolder, most: int) -> None:
    mine = _lustre_project(target)
    if not mine:
        if not most:
            return
        mine = _project_number(target.name)
    _run(["lfs", "project", "-p", str(mine), "-r", "-s", target.path])
    blocks = f"{-(-most // 1024)}k"
    _run(["lfs", "setquota", "-p", str(mine), "-b", "0", "-B", blocks if most else "0", target.mount.point])


def _project_number(name: str) -> int:
    import hashlib

    return (1 << 20) + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % (1 << 30)


def _lustre_project(target: QuotaFolder) -> int:
    """`lfs project -d` prints number, flags (P when inherited by what is made below) and path."""
    words = _run(["lfs", "project", "-d", target.path]).split()
    return int(words[0]) if len(words) > 1 and words[1] == "P" else 0


# Weka


def _look_weka(target: QuotaFolder) -> QuotaLimit:
    listed = json.loads(_run(["weka", "fs", "quota", "list", "--path", target.path, "--json"]) or "[]")
    for each in listed if isinstance(listed, list) else []:
        return QuotaLimit("weka", "", _first_number(each, "hard") or 0, _first_number(each, "total", "used"))
    return QuotaLimit("weka")


def _first_number(row: dict[str, Any], *words: str) -> int | None:
    """The first number under a key with one of these words: the names differ between versions."""
    for key, value in row.items():
        if any(word in key.lower() for word in words) and isinstance(value, int):
            return value
    return None


def _set_weka(target: QuotaFolder, most: int) -> None:
    if most:
        _run(["weka", "fs", "quota", "set", target.path, "--hard", f"{most}B"])
    elif _look_weka(target).most:
        _run(["weka", "fs", "quota", "unset", target.path])


def _run(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    except subprocess.TimeoutExpired as error:
        raise FolderRefused(f"{argv[0]} does not answer") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise FolderRefused(f"{argv[0]}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")


_READERS = {"project": _look_project, "ceph": _look_ceph, "lustre": _look_lustre, "weka": _look_weka}
_SETTERS = {"project": _set_project, "ceph": _set_ceph, "lustre": _set_lustre, "weka": _set_weka}
