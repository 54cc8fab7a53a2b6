"""Whose a folder is that a volume is to have: what was another project's is not adopted.

Folders of a project's volumes belong to its user, and what bai makes above them has its group. So a volume
lies neither in another project's folder, nor in the place of one, nor above one. Standard library only.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

from providers.storage.node.walk import FolderRefused, open_below, reference


def check_owner(root: int, parts: Sequence[str], folder: dict[str, Any]) -> None:
    """`parts`: steps from the root to the folder, which need not be there. `folder` has `projects` (ranges of
    Linux users, first and last) and the volume's own `newOwner` and `gid`. Raises FolderRefused, OSError."""
    ranges = folder.get("projects") or ()
    if not ranges:
        return
    there, path = _deepest_existing(root, parts)
    own = {folder.get("newOwner"), os.geteuid() or None}
    to = folder.get("newOwner") or 0
    while True:
        found, shown = os.stat(path), shlex.quote(path)
        if _is_other_project(found.st_uid, own, ranges):
            hand = f"chown -R {to}:{to} {shown}" if there else ""
            raise FolderRefused(_refusal(path, f"belongs to user {found.st_uid}", hand))
        if there and _is_other_project(found.st_gid, {*own, folder.get("gid")}, ranges):
            raise FolderRefused(
                _refusal(path, f"has the group of user {found.st_gid}", f"chgrp {to} {shown}")
            )
        there = False
        if path == "/":
            return
        path = os.path.dirname(path)


def group_for(root: int, folder: dict[str, Any]) -> int | None:
    """The group of what is made: the project's; without one that of the root, which is no project's, for
    folders on the way may have one of another project. None: that of the folder above."""
    owner: int | None = folder.get("newOwner")
    ranges = folder.get("projects") or ()
    if owner is not None or not ranges:
        return owner
    has = os.fstat(root).st_gid
    return 0 if _is_other_project(has, set(), ranges) else has


def _deepest_existing(root: int, parts: Sequence[str]) -> tuple[bool, str]:
    """Whether all of it is there, and where the last step that is there really is."""
    for count in range(len(parts), -1, -1):
        try:
            with open_below(root, parts[:count]) as here:
                return count == len(parts), os.readlink(reference(here))
        except FileNotFoundError:
            continue
    raise FolderRefused("its root is gone")


def _is_other_project(number: int, own: set[int | None], ranges: Sequence[Sequence[int]]) -> bool:
    return number not in own and any(first <= number <= last for first, last in ranges)


def _refusal(path: str, what: str, hand: str) -> str:
    """`hand`: the command that hands it over; empty for one above, where more than this volume is."""
    also = f", or hand the data over first, as root: {hand}" if hand else ""
    return f"{path} {what}, who is another project's: name another path{also}"
