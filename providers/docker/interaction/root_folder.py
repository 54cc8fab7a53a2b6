"""Runs on a container's node: a folder of the container as its processes see it, also what is in memory, and
also where the image has no program. Standard library only, Python 3.8 and newer.

The kernel of the node resolves each path with the container's root as the root (openat2, `RESOLVE_IN_ROOT`),
whatever the container does to it meanwhile; the root is taken from a process that is still the container's.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

from providers.machines import folder_view

_OPENAT2 = 437
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
_TRIES = 100
"""The kernel gives up where a folder on the way is moved just then."""
_PROCESS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: `pid`, `container` (its whole id), `path` in hex, and what to `do`."""
    try:
        process = os.open(f"/proc/{request['pid']:d}", _PROCESS)
        try:
            if not _is_of(process, request["container"]):
                return {"refused": "its process is in no control group of its container"}
            root = os.open("root", _PROCESS, dir_fd=process)
        finally:
            os.close(process)
        try:
            folder = _open_in(root, bytes.fromhex(request["path"]))
        finally:
            os.close(root)
        try:
            return _VERBS[request["do"]](folder, request)
        finally:
            os.close(folder)
    except OSError as error:
        return {"refused": error.strerror or str(error)}


def _is_of(process: int, container: str) -> bool:
    """A number in /proc may be another process's by now; what is open there never is."""
    with open(os.open("cgroup", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process), encoding="utf-8") as file:
        return bool(container) and container in file.read()


def _open_in(root: int, path: bytes) -> int:
    """Raises OSError."""
    how = (ctypes.c_uint64 * 3)(_FOLDER, 0, _IN_ROOT | _NO_MAGICLINKS)
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    for _ in range(_TRIES):
        there = call(
            ctypes.c_long(_OPENAT2), ctypes.c_int(root), ctypes.c_char_p(path),
            ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)),
        )  # fmt: skip
        if there >= 0:
            return int(there)
        if ctypes.get_errno() != errno.EAGAIN:
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _list(folder: int, request: dict[str, Any]) -> dict[str, Any]:
    return folder_view.list_folder(folder, request["most"])


def _rename(folder: int, request: dict[str, Any]) -> dict[str, Any]:
    folder_view.rename_file(folder, bytes.fromhex(request["name"]), bytes.fromhex(request["new"]))
    return {}


def _remove(folder: int, request: dict[str, Any]) -> dict[str, Any]:
    folder_view.remove_file(folder, bytes.fromhex(request["name"]))
    return {}


_VERBS = {"list": _list, "rename": _rename, "remove": _remove}
