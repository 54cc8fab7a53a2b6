"""Answers requests about folders: plain values in, plain values out, one answer per folder."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

from providers.storage.node import allowed, mounts, ownership, quota, trash, usage
from providers.storage.node.mounts import MountEntry
from providers.storage.node.walk import FolderRefused, NotMounted, open_below, open_root, parts_of, reference

NEW = 0o755
"""Mode of a folder that nobody said one for."""


def serve(request: dict[str, Any]) -> list[dict[str, Any]]:
    """`request`: `do` (a verb) and `folders`, each a mapping; an answer has `refused` when it was,
    and `mounted: false` where that is why."""
    verb = _VERBS[request["do"]]
    return [_run_verb(verb, folder) for folder in request["folders"]]


def _run_verb(verb: Callable[[dict[str, Any]], dict[str, Any]], folder: dict[str, Any]) -> dict[str, Any]:
    try:
        return verb(folder)
    except NotMounted as error:
        return {"refused": str(error), "mounted": False}
    except FolderRefused as error:
        return {"refused": str(error)}
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        return {"refused": f"{error.strerror or error}{where}"}


@contextlib.contextmanager
def opened_root(folder: dict[str, Any]) -> Iterator[tuple[int, MountEntry]]:
    with open_root(folder["root"]) as root:
        if not folder.get("anywhere"):
            allowed.check_root(root, folder["root"])
        yield root, mounts.check_type(folder["root"], folder.get("fileSystems", ()))


def look(folder: dict[str, Any]) -> dict[str, Any]:
    """What is there: owner, mode, quota; with `usage`, how much it holds."""
    with opened_root(folder) as (root, on):
        could = quota.means_of(on)
        parts = parts_of(folder["path"])
        ownership.check_owner(root, parts, folder)
        try:
            with open_below(root, parts) as here, open_below(root, parts[:-1]) as above:
                found = os.fstat(here)
                target = quota.QuotaFolder(
                    on, here, above, os.path.join(folder["root"], *parts), folder["volume"]
                )
                has = quota.read_limit(target)
                used, whole = _measure(here, has) if folder.get("usage") else (has.used, True)
                return {
                    "there": True, "uid": found.st_uid, "gid": found.st_gid,
                    "mode": stat.S_IMODE(found.st_mode), "quota": has.most, "unheld": has.unheld,
                    "used": used, "whole": whole,
                }  # fmt: skip
        except FileNotFoundError:
            return {"there": False, "unheld": could.unheld}


def _measure(here: int, has: quota.QuotaLimit) -> tuple[int, bool]:
    if has.used is not None:
        return has.used, True
    counted = usage.ceph_usage(here)
    return (counted, True) if counted is not None else usage.count_usage(here)


def make(folder: dict[str, Any]) -> dict[str, Any]:
    """Bring a folder to what it must be: there, with this owner, mode and quota. What is in it stays."""
    with opened_root(folder) as (root, on):
        parts = parts_of(folder["path"])
        ownership.check_owner(root, parts, folder)
        mode = folder.get("mode")
        new = NEW if mode is None else mode
        owner, group = folder.get("newOwner"), ownership.group_for(root, folder)
        with open_below(root, parts[:-1], NEW, None, group) as above, open_below(
            above, parts[-1:], new, owner, group
        ) as here:
            _set_owner(here, folder.get("uid"), folder.get("gid"))
            if mode is not None and stat.S_IMODE(os.fstat(here).st_mode) != mode:
                os.chmod(reference(here), mode)
            path = os.path.join(folder["root"], *parts)
            target = quota.QuotaFolder(on, here, above, path, folder["volume"])
            wanted = folder.get("quota")
            unheld = "" if wanted is None else quota.set_limit(target, wanted)
    return {"unheld": unheld}


def _set_owner(here: int, uid: Any, gid: Any) -> None:
    found = os.fstat(here)
    wanted = (found.st_uid if uid is None else uid, found.st_gid if gid is None else gid)
    if wanted != (found.st_uid, found.st_gid):
        try:
            os.chown(reference(here), *wanted)
        except PermissionError as error:
            raise FolderRefused(f"it cannot be given to {wanted[0]}:{wanted[1]}: only root can") from error


def check(folder: dict[str, Any]) -> dict[str, Any]:
    """Whether a folder may be mounted: its root is, and no link leads out. `anywhere`: its root is no storage
    host's.

    With `make`, missing ones are made, and belong to `newOwner`, or to whom the folder above belongs.
    """
    with opened_root(folder) as (root, _):
        make = NEW if folder.get("make") else None
        owner = folder.get("newOwner")
        with open_below(root, parts_of(folder["path"]), make, owner, owner):
            return {}


def move(folder: dict[str, Any]) -> dict[str, Any]:
    """Into the trash."""
    with opened_root(folder) as (root, on):
        entry = trash.move(root, on, folder["root"], folder["path"], folder["entry"], folder["record"])
        return {"entry": entry}


def trashed(folder: dict[str, Any]) -> dict[str, Any]:
    """What is in a root's trash."""
    with opened_root(folder) as (root, _):
        return {"entries": trash.entries(root)}


def restore(folder: dict[str, Any]) -> dict[str, Any]:
    """Out of the trash."""
    with opened_root(folder) as (root, _):
        return {"path": trash.restore(root, folder["entry"])}


def purge(folder: dict[str, Any]) -> dict[str, Any]:
    """Out of the trash, for good."""
    with opened_root(folder) as (root, on):
        trash.purge(root, on, folder["root"], folder["entry"])
        return {}


_VERBS = {
    "look": look, "make": make, "check": check, "move": move,
    "trashed": trashed, "restore": restore, "purge": purge,
}  # fmt: skip
