"""Folders held in place for an engine: `<place>/<kernel>/<number>` is a bind mount of what was opened beneath
a root, so that the engine, which follows links, is given a path that nobody but root can reach or change.

All of a kernel's pins are on one small read-only tmpfs, mounted at `<place>/<kernel>`. Where that is not seen
(another view of the file system, a restart of the node) the path is not there at all, and the engine refuses
it; an empty folder in its place would take what a session writes. What is taken away is unmounted and then
removed only if it is empty: nothing here deletes what is in a folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Sequence
from typing import Any

from providers.storage.beneath import make_beneath, open_beneath, reference
from providers.storage.node.walk import FolderRefused, parts_of

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH, _NOFOLLOW = 2, 8
_TRIES = 5
"""Whoever takes the last kernel's pins takes the folder above them, too, at any moment."""


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: `do` (`pin`, `unpin`), `place`, `kernel`, and to pin `folders`, each with `root` and `path`.
    The answer has `sources`, in their order, or `refused`."""
    try:
        at = _pin_folder(request["place"], request["kernel"])
        if request["do"] == "unpin":
            unpin(at)
            return {}
        folders = [(folder["root"], folder["path"]) for folder in request["folders"]]
        return {"sources": pin(at, folders)}
    except FolderRefused as error:
        return {"refused": str(error)}
    except PermissionError:
        return {"refused": "only root can hold its folder in place"}
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        return {"refused": f"{error.strerror or error}{where}"}


def _pin_folder(place: str, kernel: str) -> str:
    if len(parts_of(kernel)) != 1:
        raise FolderRefused(f"{kernel!r} is no kernel's name")
    return f"{place}/{kernel}"


def pin(at: str, folders: Sequence[tuple[str, str]]) -> list[str]:
    """Hold folders (root, path beneath it) at `at`, in place of what was held there; gives where each is.
    Raises OSError."""
    unpin(at)
    _make_place(at)
    sources = []
    try:
        _mount("tmpfs", at, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=0700,size=64k")
        for number, (root, path) in enumerate(folders):
            sources.append(f"{at}/{number}")
            os.mkdir(sources[-1], 0o700)
            _bind_folder(root, path, sources[-1])
        _mount("tmpfs", at, "tmpfs", _REMOUNT | _RDONLY | _NOSUID | _NODEV | _NOEXEC, "")
    except BaseException:
        with contextlib.suppress(OSError):
            unpin(at)
        raise
    return sources


def _make_place(at: str) -> None:
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.close(make_beneath("/", at.lstrip("/"), 0o700))
            return
    raise OSError(errno.ENOENT, "it goes as soon as it is made", at)


def _bind_folder(root: str, path: str, target: str) -> None:
    """With what is mounted below it; private, so that unmounting here unmounts nothing there."""
    there = open_beneath(root, path)
    try:
        _mount(reference(there), target, "", _BIND | _REC, "")
    finally:
        os.close(there)
    _mount("", target, "", _PRIVATE | _REC, "")


def unpin(at: str) -> None:
    """Let go of all that is held there; nothing is there afterwards. Raises OSError."""
    if not os.path.lexists(at):
        return
    while _unmount(at):
        pass
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(at)
    for above in (os.path.dirname(at), os.path.dirname(os.path.dirname(at))):
        with contextlib.suppress(OSError):  # Others are held there.
            os.rmdir(above)


def _unmount(at: str) -> bool:
    """Whether something was mounted there."""
    if not ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(at), _DETACH | _NOFOLLOW):
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOENT):
        return False
    raise OSError(number, os.strerror(number), at)


def _mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    call = ctypes.CDLL(None, use_errno=True).mount
    words = (
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind),
        ctypes.c_ulong(flags),
        data.encode(),
    )
    if call(*words):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
