"""A folder beneath a root as a descriptor, reached without following any link: what it means stays the same
whoever renames or replaces things on the way afterwards.

Standard library only, Python 3.8 and newer: it runs on nodes and in supervisors, too. Whoever mounts what it
opened hands on the descriptor (`/proc/self/fd/N`) and never the path again. openat2(2) and its RESOLVE_ flags
are described in its manual page; the walk does the same with one openat(2) for each step.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence

PATH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_OPENAT2 = 437
"""The same number on every architecture that Python runs on but Alpha."""
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08


def open_beneath(root: str, below: str) -> int:
    """An O_PATH descriptor of the folder `below` (relative, `""`: the root itself) beneath the folder `root`
    (absolute; only in this path links are followed). The caller closes it.

    Raises OSError: ELOOP for a link on the way, ENOTDIR for what is no folder, ENOENT, each naming the step;
    EINVAL for a path that leads up or is absolute.
    """
    return _opened(root, below, None)


def make_beneath(root: str, below: str, mode: int) -> int:
    """The same, but missing folders are made with `mode`; each belongs to whom the one above it belongs."""
    return _opened(root, below, mode)


def _opened(root: str, below: str, make: int | None) -> int:
    steps = steps_of(below)
    if not root.startswith("/") or ".." in root.split("/"):
        raise OSError(errno.EINVAL, "not an absolute path without `..`", root)
    base = os.open(root, PATH)
    try:
        there = at_once(base, steps)
        return step_by_step(base, steps, make) if there is None else there
    finally:
        os.close(base)


def steps_of(below: str) -> tuple[str, ...]:
    """The components of a relative path. Raises OSError (EINVAL)."""
    steps = tuple(part for part in below.split("/") if part not in ("", "."))
    if below.startswith("/") or ".." in steps or "\0" in below:
        raise OSError(errno.EINVAL, "not a path below the root", below)
    return steps


def at_once(base: int, steps: Sequence[str]) -> int | None:
    """A descriptor by one openat2; None where that is refused or the kernel has none (before Linux 5.6, or
    forbidden by a filter): the walk says why, or does without."""
    import ctypes

    how = (ctypes.c_uint64 * 3)(PATH, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    path = os.fsencode("/".join(steps) or ".")
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    there = call(
        ctypes.c_long(_OPENAT2), ctypes.c_int(base), ctypes.c_char_p(path),
        ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)),
    )  # fmt: skip
    return None if there < 0 else int(there)


def step_by_step(
    base: int,
    steps: Sequence[str],
    make: int | None = None,
    owner: int | None = None,
    group: int | None = None,
) -> int:
    """A descriptor by a walk; missing folders are made with mode `make` and belong to the user `owner` and
    the group `group`, or to whom the folder above belongs. Raises as `open_beneath`."""
    here = os.dup(base)
    try:
        for depth, step in enumerate(steps):
            there = _open_step(here, step, make, (owner, group), "/".join(steps[: depth + 1]))
            os.close(here)
            here = there
    except BaseException:
        os.close(here)
        raise
    return here


def _open_step(
    here: int, step: str, make: int | None, owner: tuple[int | None, int | None], name: str
) -> int:
    with contextlib.suppress(FileNotFoundError):
        return _open(here, step, name)
    if make is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    with contextlib.suppress(FileExistsError):
        os.mkdir(step, 0o700, dir_fd=here)
        _dress_folder(here, step, make, owner, name)
    return _open(here, step, name)


def _dress_folder(here: int, step: str, mode: int, owner: tuple[int | None, int | None], name: str) -> None:
    """Root's umask does not count for a new folder."""
    above = os.fstat(here)
    user, group = owner
    wanted = (above.st_uid if user is None else user, above.st_gid if group is None else group)
    there = _open(here, step, name)
    try:
        made = os.fstat(there)
        if made.st_uid != os.geteuid() or stat.S_IMODE(made.st_mode) & 0o777 != 0o700:
            return  # Somebody has put another in its place, whose rights are not ours to change.
        if (made.st_uid, made.st_gid) != wanted:
            with contextlib.suppress(PermissionError):
                os.chown(reference(there), *wanted)
        os.chmod(reference(there), mode)
    finally:
        os.close(there)


def _open(here: int, step: str, name: str) -> int:
    try:
        return os.open(step, PATH | os.O_NOFOLLOW, dir_fd=here)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            if _is_link(here, step):
                raise OSError(errno.ELOOP, f"{name} is a link (links are not followed)") from error
            raise OSError(errno.ENOTDIR, f"{name} is not a folder") from error
        raise OSError(error.errno, error.strerror, name) from error


def _is_link(here: int, step: str) -> bool:
    try:
        os.readlink(step, dir_fd=here)
    except OSError:
        return False
    return True


def reference(descriptor: int) -> str:
    """A path that means exactly what this descriptor means, in this process."""
    return f"/proc/self/fd/{descriptor}"
