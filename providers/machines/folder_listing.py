"""What a folder has, as values, of what `folder_view` answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

FileKind = Literal["file", "folder", "link", "other"]
KINDS: tuple[FileKind, ...] = ("file", "folder", "link", "other")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What a folder has by a name: bytes as the file system has them, in Python's way (`surrogateescape`)."""

    name: str
    kind: FileKind
    size: int | None = None
    """Bytes of a file; None where that is not known."""
    modified: float | None = None
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """What is in a folder, by name."""

    entries: tuple[FileEntry, ...]
    count: int
    """How many there are, of which these may be the first."""


def parse_listing(answer: object) -> FolderListing:
    """Whoever answers may be anybody who has taken the other side over. Raises ValueError."""
    try:
        found = cast(Mapping[str, Any], answer)
        return FolderListing(tuple(map(_parse_entry, found["entries"])), int(found["count"]))
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError("what it answered is no list of files") from error


def _parse_entry(row: Any) -> FileEntry:
    name, kind, size, modified = row
    if kind not in KINDS:
        raise ValueError("what it answered is no list of files")
    return FileEntry(
        os.fsdecode(bytes.fromhex(name)), kind,
        None if size is None else int(size), None if modified is None else float(modified),
    )  # fmt: skip
