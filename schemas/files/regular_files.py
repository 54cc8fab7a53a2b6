"""Reading files whose path or content somebody else chose, without waiting for anybody.

A document or an option may name a FIFO that nobody writes to, a terminal, a device, a directory or a file
without an end. None of them is opened for longer than it takes to see what it is.
"""

from __future__ import annotations

import errno
import os
import re
import stat

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
}
_HANDED = re.compile(r"/dev/(stdin|fd/\d+)")
_CHUNK = 1 << 20
LARGEST_PEM = 16 << 20
"""Bytes of a file of certificates or keys."""


def read_regular_file(path: str | os.PathLike[str], most: int) -> bytes:
    """The content of a regular file of at most `most` bytes.

    Raises OSError, whose `strerror` says what is there instead; its `errno` is EFBIG for a larger file.
    """
    descriptor = open_regular_file(path)
    try:
        return read_descriptor(descriptor, path, most)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, path: str | os.PathLike[str], most: int) -> bytes:
    """What is left of a file that `open_regular_file` opened; raises OSError like `read_regular_file`."""
    parts: list[bytes] = []
    size = 0
    while size <= most and (part := os.read(descriptor, min(_CHUNK, most + 1 - size))):
        parts.append(part)
        size += len(part)
    if size > most:
        raise _too_large(path, most)
    return b"".join(parts)


def open_regular_file(path: str | os.PathLike[str], *, follow: bool = True) -> int:
    """A descriptor of a regular file, to read from; `follow`: whether the path may be a symbolic link.

    Looked at before it is opened, as opening alone has effects on some devices, and after, as it may have
    been exchanged. Of the descriptors that whoever started us handed on, a pipe is as good: `/dev/stdin`, or
    `/dev/fd/63` as shells write `<(command)`. Raises OSError like `read_regular_file`.
    """
    if _HANDED.fullmatch(os.fspath(path)):
        return os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    _require_regular(os.stat(path, follow_symlinks=follow), path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_regular_file(path: str | os.PathLike[str], most: int = LARGEST_PEM) -> None:
    """For paths that a library opens by itself. Raises OSError like `read_regular_file`."""
    descriptor = open_regular_file(path)
    try:
        if os.fstat(descriptor).st_size > most:
            raise _too_large(path, most)
    finally:
        os.close(descriptor)


def require_regular_path(path: str | os.PathLike[str]) -> None:
    """The same without opening it, for files that SQLite may have open: when any descriptor of a file is
    closed, all locks that the process has on it are gone (fcntl), and others take it for unused."""
    _require_regular(os.stat(path), path)


def _too_large(path: str | os.PathLike[str], most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {_format_size(most)}", os.fspath(path))


def _require_regular(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, and must be a regular file", os.fspath(path))


def _format_size(count: int) -> str:
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if count and not count % (1 << shift):
            return f"{count >> shift} {unit}"
    return f"{count} bytes"
