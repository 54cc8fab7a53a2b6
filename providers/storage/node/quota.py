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
from providers.storage.node.mounts import Mounted
from providers.storage.node.walk import Refused, reference

_CEPH = "ceph.quota.max_bytes"
_NETWORK = ("nfs", "nfs4", "cifs", "smb3")


class Place(NamedTuple):
    """A folder as quotas need it: open, the one above it too, its path, and a name for it."""

    mount: Mounted
    folder: int
    above: int
    path: str
    name: str


class Limit(NamedTuple):
    """What holds a folder's limit, or why nothing does; bytes."""

    means: str = ""
    unheld: str = ""
    most: int = 0
    used: int | None = None


def means_of(mount: Mounted) -> Limit:
    """What could hold a limit on this file system."""
    kind = mount.kind
    if kind in ("xfs", "ext4"):
        why = project.usable(mount)
        return Limit(unheld=why) if why else Limit("project")
    if kind in ("ceph", "fuse.ceph", "fuse.ceph-fuse"):
        return Limit("ceph")
    if kind == "lustre":
        return _tool("lfs", "lustre")
    if kind == "wekafs":
        return _tool("weka", "weka")
    if kind in _NETWORK:
        return Limit(unheld=f"{kind} has no quotas that a client can set; set one on the server")
    return Limit(unheld=f"{kind} has no quotas for folders")


def _tool(program: str, means: str) -> Limit:
    return Limit(means) if shutil.which(program) else Limit(unheld=f"the command {program} is not installed")


def look(place: Place) -> Limit:
    """The limit that a folder has now, and its use where the file system counts it."""
    found = means_of(place.mount)
    if not found.means:
        return found
    try:
        return _LOOK[found.means](place)
    except (OSError, ValueError, Refused) as error:
        return Limit(unheld=f"its quota cannot be read: {_said(error)}")


def limit(place: Place, most: int) -> str:
    """Set or (0) lift the limit. Gives why that cannot be done; empty when it was. Raises Refused."""
    found = means_of(place.mount)
    if not found.means:
        return found.unheld if most else ""
    try:
        _SET[found.means](place, most)
    except OSError as error:
        if isinstance(error, PermissionError):
            return "quotas are root's to set on this node"
        raise Refused(f"its quota cannot be set: {_said(error)}") from error
    return ""


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


# Project quotas


def _look_project(place: Place) -> Limit:
    mine = project.own(place.folder, place.above)
    if not mine:
        return Limit("project")
    try:
        most, used = project.limits(place.mount, place.folder, mine)
    except (FileNotFoundError, ProcessLookupError):
        return Limit("project")
    return Limit("project", "", most, used)


def _set_project(place: Place, most: int) -> None:
    project.limit(place.mount, place.folder, place.above, place.name, most)


# CephFS


def _look_ceph(place: Place) -> Limit:
    try:
        most = int(os.getxattr(reference(place.folder), _CEPH))
    except OSError:  # it has none
        most = 0
    return Limit("ceph", "", most)


def _set_ceph(place: Place, most: int) -> None:
    os.setxattr(reference(place.folder), _CEPH, str(most).encode())


# Lustre


def _look_lustre(place: Place) -> Limit:
    mine = _lustre_project(place)
    if not mine:
        return Limit("lustre")
    words = _run(["lfs", "quota", "-q", "-p", str(mine), place.mount.point]).split()
    numbers = [word.strip("[]*") for word in words[1:]]
    return Limit("lustre", "", int(numbers[2]) * 1024, int(numbers[0]) * 1024)


def _set_lustre(place: Place, most: int) -> None:
    mine = _lustre_project(place)
    if not mine:
        if not most:
            return
        mine = _hash(place.name)
    _run(["lfs", "project", "-p", str(mine), "-r", "-s", place.path])
    blocks = f"{-(-most // 1024)}k"
    _run(["lfs", "setquota", "-p", str(mine), "-b", "0", "-B", blocks if most else "0", place.mount.point])


def _hash(name: str) -> int:
    import hashlib

    return (1 << 20) + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % (1 << 30)


def _lustre_project(place: Place) -> int:
    """`lfs project -d` prints number, flags (P when inherited by what is made below) and path."""
    words = _run(["lfs", "project", "-d", place.path]).split()
    return int(words[0]) if len(words) > 1 and words[1] == "P" else 0


# Weka


def _look_weka(place: Place) -> Limit:
    listed = json.loads(_run(["weka", "fs", "quota", "list", "--path", place.path, "--json"]) or "[]")
    for each in listed if isinstance(listed, list) else []:
        return Limit("weka", "", _bytes(each, "hard") or 0, _bytes(each, "total", "used"))
    return Limit("weka")


def _bytes(row: dict[str, Any], *words: str) -> int | None:
    """The first number under a key with one of these words: the names differ between versions."""
    for key, value in row.items():
        if any(word in key.lower() for word in words) and isinstance(value, int):
            return value
    return None


def _set_weka(place: Place, most: int) -> None:
    if most:
        _run(["weka", "fs", "quota", "set", place.path, "--hard", f"{most}B"])
    elif _look_weka(place).most:
        _run(["weka", "fs", "quota", "unset", place.path])


def _run(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{argv[0]} does not answer") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Refused(f"{argv[0]}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")


_LOOK = {"project": _look_project, "ceph": _look_ceph, "lustre": _look_lustre, "weka": _look_weka}
_SET = {"project": _set_project, "ceph": _set_ceph, "lustre": _set_lustre, "weka": _set_weka}
