"""From a root to a folder below it, step by step on the real file system, so that no link leads out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from providers.storage.beneath import PATH, reference, step_by_step, steps_of

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
__all__ = ["FolderRefused", "NotMounted", "open_below", "open_root", "parts_of", "reference"]


class FolderRefused(Exception):
    """What is there is not what it must be; the text says it to a person."""


class NotMounted(FolderRefused):
    """The root is not on a file system of a kind that was asked for."""


def parts_of(path: str) -> tuple[str, ...]:
    """A relative path's components. Raises FolderRefused for one that leads up."""
    try:
        return steps_of(path)
    except OSError as error:
        raise FolderRefused(f"{path!r} is {error.strerror}") from error


@contextlib.contextmanager
def open_root(path: str) -> Iterator[int]:
    """A descriptor of the root itself; only here may links be followed. Raises FolderRefused."""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise FolderRefused(f"{path!r} is not an absolute path without `..`")
    try:
        here = os.open(path, PATH)
    except OSError as error:
        raise FolderRefused(f"{path}: {error.strerror}") from error
    try:
        yield here
    finally:
        os.close(here)


@contextlib.contextmanager
def open_below(
    root: int,
    parts: Sequence[str],
    make: int | None = None,
    owner: int | None = None,
    group: int | None = None,
) -> Iterator[int]:
    """A descriptor of a folder below `root`. Missing ones are made with mode `make` and belong to `owner` and
    `group`, or to whom the folder above belongs; without `make`, FileNotFoundError. Raises OSError
    for a link or a file on the way."""
    here = step_by_step(root, parts, make, owner, group)
    try:
        with contextlib.suppress(PermissionError):  # one that may be read, if possible
            there = os.open(".", _FLAGS, dir_fd=here)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)
