"""From a root to a folder below it, step by step on the real file system, so that no link leads out."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PATH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Refused(Exception):
    """What is there is not what it must be; the text says it to a person."""


def parts_of(path: str) -> tuple[str, ...]:
    """A relative path's components. Raises Refused for one that is empty or leads up."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise Refused(f"{path!r} is not a path below the root")
    return parts


@contextlib.contextmanager
def root_of(path: str) -> Iterator[int]:
    """A descriptor of the root itself; only here may links be followed. Raises Refused."""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Refused(f"{path!r} is not an absolute path without `..`")
    try:
        here = os.open(path, _PATH)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    try:
        yield here
    finally:
        os.close(here)


@contextlib.contextmanager
def below(root: int, parts: Sequence[str], make: int | None = None) -> Iterator[int]:
    """A descriptor of a folder below `root`. Missing ones are made with mode `make`, the owner being that of
    the folder above; without `make`, FileNotFoundError. Raises Refused for a link or a file on the way."""
    here = os.dup(root)
    try:
        for part in parts:
            there = _step(here, part, make)
            os.close(here)
            here = there
        with contextlib.suppress(PermissionError):  # one that may be read, if possible
            there = os.open(".", _FLAGS, dir_fd=here)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)


def _step(here: int, part: str, make: int | None) -> int:
    with contextlib.suppress(FileNotFoundError):
        return _open(here, part)
    if make is None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", part)
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=here)
        _dress(here, part, make)
    return _open(here, part)


def _dress(here: int, part: str, mode: int) -> None:
    """A new folder belongs to whom the folder above belongs; root's umask does not count."""
    above = os.stat(here)
    there = _open(here, part)
    try:
        made = os.stat(there)
        if (made.st_uid, made.st_gid) != (above.st_uid, above.st_gid):
            with contextlib.suppress(PermissionError):
                os.chown(reference(there), above.st_uid, above.st_gid)
        os.chmod(reference(there), mode)
    finally:
        os.close(there)


def _open(here: int, part: str) -> int:
    try:
        return os.open(part, _PATH | os.O_NOFOLLOW, dir_fd=here)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            what = "a link" if _is_link(here, part) else "not a folder"
            raise Refused(f"{part} is {what} (links are not followed)") from error
        raise Refused(f"{part}: {error.strerror}") from error


def _is_link(here: int, part: str) -> bool:
    try:
        os.readlink(part, dir_fd=here)
    except OSError:
        return False
    return True


def reference(descriptor: int) -> str:
    """A path that means exactly what this descriptor means."""
    return f"/proc/self/fd/{descriptor}"
