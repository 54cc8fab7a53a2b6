"""What is in a folder, and a new file in it, for those who see it on a page. Names are bytes, in hex.

Standard library only, Python 3.8 and newer: it runs on nodes, and in what enters kernels, where nothing more
can be imported once it has begun.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

MOST_READ = 1_000_000
"""Names that are read of one folder."""
PREFIX = ".bai-upload-"
"""Of files that are not whole yet."""
CHUNK = 1 << 16
NEW = 0o644
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def list_folder(folder: int, most: int) -> dict[str, Any]:
    """The first `most` by name of what is in a folder, that may be read: name, kind, size and time of the
    last change of each, and how many there are. Raises OSError."""
    count = 0

    def names() -> Iterator[bytes]:
        nonlocal count
        with os.scandir(folder) as found:
            for entry in found:
                if count >= MOST_READ:
                    return
                count += 1
                yield os.fsencode(entry.name)

    rows = [_row(folder, name) for name in heapq.nsmallest(most, names())]
    return {"entries": [row for row in rows if row is not None], "count": count}


def _row(folder: int, name: bytes) -> list[Any] | None:
    """None for what is gone meanwhile."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError:
        return [name.hex(), "other", None, None]
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return [name.hex(), kind, found.st_size if kind == "file" else None, found.st_mtime]


def receive_file(
    folder: int, name: bytes, size: int, read: Callable[[int], bytes], owner: Any = None
) -> None:
    """A file of exactly `size` bytes in a folder, in place of one of its name; written beside it, so that one
    that does not come whole leaves nothing. `owner`: numbers of its user and group. Raises OSError."""
    temporary = (PREFIX + os.urandom(8).hex()).encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    out = os.open(temporary, flags, NEW, dir_fd=folder)
    try:
        if owner is not None:
            os.fchown(out, owner[0], owner[1])
        _receive(out, size, read)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        remove_file(folder, temporary)
        raise
    finally:
        os.close(out)


def _receive(out: int, size: int, read: Callable[[int], bytes]) -> None:
    left = size
    while left:
        data = read(min(left, CHUNK))
        if not data:
            raise OSError(0, "it did not come whole")
        left -= len(data)
        while data:
            data = data[os.write(out, data) :]


def rename_file(folder: int, name: bytes, new: bytes) -> None:
    """Within a folder. Raises OSError."""
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)


def remove_file(folder: int, name: bytes) -> None:
    """One that is not there is gone already."""
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)
