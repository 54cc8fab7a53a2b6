"""From root to a session's user, before anything of a session's is touched. Cheap imports only.

Root opens what the sandbox is to show, puts it where everybody may pass, in a mount namespace of its own, and
gives up being root; only then bubblewrap begins. Whatever a session has put in its folders, no name in
them is ever followed with root's rights.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence

from providers.process.linux import parent_death

STAGING_FOLDER = "/tmp"
"""Covered by a private file system while the sandbox is made; what lies in the machine's is open already."""
_NEW_NAMESPACE = 0x00020000
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 1 << 12, 1 << 14, 1 << 18

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class User(TypedDict):
        """Whom a session's processes belong to: the machine's ids; `groups` are supplementary."""

        uid: int
        gid: int
        groups: list[int]


def unshare_mounts() -> None:
    """From now on this process's mounts are its own. What it opens afterwards can be shown. Needs root.

    Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACE) != 0:
        raise _failed("a mount namespace")
    _mount("none", "/", _RECURSIVE | _PRIVATE)


def show_descriptors(descriptors: Sequence[int]) -> list[str]:
    """Where what is open is to be found now, by this process and its children, whoever they become.

    Raises OSError.
    """
    _mount("tmpfs", STAGING_FOLDER, _NOSUID | _NODEV, "tmpfs", "mode=0755,size=1m")
    places = []
    for number, descriptor in enumerate(descriptors):
        place = f"{STAGING_FOLDER}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(place, 0o700)
        else:
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _mount(f"/proc/self/fd/{descriptor}", place, _BIND | _RECURSIVE)
        places.append(place)
    return places


def become_user(user: User) -> None:
    """This process, and all it starts, is that user and has no capability; it still ends with its parent, if
    it did. Raises OSError."""
    ending, parent = parent_death.ends_with_parent(), os.getppid()
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])
    if ending:
        parent_death.end_with_parent(parent)


def _mount(source: str, target: str, flags: int, kind: str = "", data: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (source.encode(), target.encode(), kind.encode() or None)
    if libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None) != 0:
        raise _failed(target)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
