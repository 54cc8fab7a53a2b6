"""Project quotas of XFS and ext4: a folder's files carry a number, and the number has a limit.

Spoken to the kernel directly (`FS_IOC_FSSETXATTR`, `quotactl_fd`, before Linux 5.14 `quotactl`), so that no
tool need be installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct

from providers.storage.node.mounts import MountEntry

_GET, _SET = 0x801C581F, 0x401C5820
_LAYOUT = struct.Struct("=5I8s")  # xflags, extsize, nextents, projid, cowextsize, padding
_INHERIT = 0x200
_LIMITS = struct.Struct("=8QI4x")  # struct if_dqblk: block limits in KiB, space in bytes
_GETQUOTA, _SETQUOTA = 0x800007, 0x800008
_PROJECT = 2
_BLOCK_LIMITS, _FILE_LIMITS = 1, 4
_SYS_QUOTACTL_FD = 443
_FIRST, _NUMBERS = 1 << 20, (1 << 31) - (1 << 21)


def quota_problem(mount: MountEntry) -> str:
    """Why there are no project quotas on this file system; empty when there are."""
    if mount.kind not in ("xfs", "ext4"):
        return f"{mount.kind} has no project quotas"
    words = set(mount.options.split(","))
    if words & {"prjquota", "pquota"}:
        return ""
    return f"{mount.kind} at {mount.point} is mounted without prjquota"


def project_of(folder: int) -> int:
    """The project of a folder; 0 for none."""
    return _get_attributes(folder)[3]


def own_project(folder: int, above: int) -> int:
    """The folder's project, unless it only has it from the folder above."""
    mine = project_of(folder)
    return mine if mine and mine != project_of(above) else 0


def read_limits(mount: MountEntry, folder: int, project: int) -> tuple[int, int]:
    """Limit and use of a project, in bytes; no limit is 0. Raises OSError."""
    answer = _quotactl(mount, folder, _GETQUOTA, project, bytes(_LIMITS.size))
    hard, _, used, *_ = _LIMITS.unpack(answer)
    return hard * 1024, used


def limit_folder(mount: MountEntry, folder: int, above: int, name: str, most: int) -> None:
    """Let a folder and all that is in it hold `most` bytes at most; 0 lifts the limit. Raises OSError."""
    project = own_project(folder, above)
    if not project:
        if not most:
            return
        project = _free_number(mount, folder, name)
    # Again for one that has its number already: whoever was at it may have been stopped half-way.
    _mark_tree(folder, project)
    set_project_limits(mount, folder, project, most)


def assign_project(mount: MountEntry, folder: int, name: str) -> int:
    """A project of its own for an empty folder: all that is made in it will carry it. Raises OSError."""
    project = _free_number(mount, folder, name)
    _set_attributes(folder, project, _INHERIT)
    return project


def set_project_limits(
    mount: MountEntry, folder: int, project: int, most: int, files: int | None = None
) -> None:
    """Let a project have `most` bytes and so many files, folders and links; 0 for any number, None: as it is.
    `folder` is any on its file system. Raises OSError."""
    blocks = -(-most // 1024)
    valid = _BLOCK_LIMITS if files is None else _BLOCK_LIMITS | _FILE_LIMITS
    _quotactl(mount, folder, _SETQUOTA, project, _LIMITS.pack(blocks, 0, 0, files or 0, 0, 0, 0, 0, valid))


def _free_number(mount: MountEntry, folder: int, name: str) -> int:
    """A number from the name, the next one that nobody uses."""
    first = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:8], "big")
    for step in range(1000):
        project = _FIRST + (first + step) % _NUMBERS
        try:
            if read_limits(mount, folder, project) == (0, 0):
                return project
        except (FileNotFoundError, ProcessLookupError):
            return project
    raise OSError(0, "no project number is free")


def _mark_tree(folder: int, project: int) -> None:
    """Everything below, then the folder itself: what is made meanwhile inherits it."""
    _set_attributes(folder, project, _INHERIT)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    device = os.fstat(folder).st_dev
    for _, _, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        if os.fstat(here).st_dev != device:
            continue
        _set_attributes(here, project, _INHERIT)
        for name in files:
            try:
                if not _is_plain(name, here):
                    continue
                file = os.open(name, flags, dir_fd=here)
            except FileNotFoundError:
                continue
            try:
                _set_attributes(file, project, 0)
            finally:
                os.close(file)


def _is_plain(name: str, here: int) -> bool:
    import stat

    return stat.S_ISREG(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)


def _get_attributes(folder: int) -> tuple[int, ...]:
    buffer = bytearray(_LAYOUT.size)
    fcntl.ioctl(folder, _GET, buffer)
    return _LAYOUT.unpack(bytes(buffer))


def _set_attributes(file: int, project: int, flags: int) -> None:
    known = list(_get_attributes(file))
    if known[3] == project and known[0] & flags == flags:
        return
    known[0] |= flags
    known[3] = project
    fcntl.ioctl(file, _SET, _LAYOUT.pack(*known))


def _quotactl(mount: MountEntry, folder: int, command: int, project: int, data: bytes) -> bytes:
    import ctypes  # Slow to load, and needed only where there are quotas.

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(data, _LIMITS.size)
    order = ctypes.c_uint((command << 8) | _PROJECT)
    failed = libc.syscall(ctypes.c_long(_SYS_QUOTACTL_FD), ctypes.c_uint(folder), order, project, buffer)
    if failed and ctypes.get_errno() == 38:  # ENOSYS: an older kernel wants the device
        failed = libc.quotactl(order, os.fsencode(_device(mount)), project, buffer)
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return buffer.raw


def _device(mount: MountEntry) -> str:
    numbered = f"/dev/block/{mount.device}"
    return numbered if os.path.exists(numbered) else mount.source
