"""Files of stores: made private, copied with SQLite's own online backup, put in place whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from schemas.files.regular_files import require_regular_path

if TYPE_CHECKING:
    from reconciler.store.database.address import StoreAddress


def create_store_file(address: StoreAddress) -> None:
    """Make the file (mode 0600, in a directory that git ignores) where there is none."""
    path = address.path
    if path is None:
        return
    create_store_folder(path)
    try:
        require_regular_path(path)
    except FileNotFoundError:
        # Made before the database opens it: its side files take over the mode. Not by opening it: another
        # thread may be faster, and lose the locks that it has on the file once we close it.
        with contextlib.suppress(FileExistsError):
            os.mknod(os.path.realpath(path), 0o600)


def create_store_folder(path: Path) -> None:
    """The folder of a store's file."""
    if path.parent.exists():
        return
    # Others may be making it at the same moment.
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    if path.parent.name == ".bai":
        (path.parent / ".gitignore").write_text("*\n")


def copy_database(source: Path, target: Path) -> None:
    """What `source` holds now, also while others write to it."""
    read_only = f"file:{quote(str(source.absolute()))}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(read_only, uri=True)) as reader,
        contextlib.closing(sqlite3.connect(target)) as writer,
    ):
        reader.backup(writer)


def leave_wal_mode(path: Path) -> None:
    """One file, readable from anywhere: no write-ahead log beside it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def publish_draft(draft: Path, target: Path) -> None:
    """Give a draft its name, on the disk for good."""
    _fsync(draft)
    os.replace(draft, target)
    _fsync(target.parent)


def replace_store_file(draft: Path, path: Path) -> None:
    """Over a readable store through SQLite, so that its write-ahead log cannot be mixed up; else by replacing
    the file."""
    try:
        if path.exists() and path.stat().st_size:
            copy_database(draft, path)
            return
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        os.replace(path, path.with_name(path.name + ".damaged"))
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    os.replace(draft, path)
    _fsync(path.parent)


@contextlib.contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """A draft (mode 0600) in the same folder, gone afterwards with everything that belongs to it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for side in ("", "-wal", "-shm", "-journal"):
            Path(name + side).unlink(missing_ok=True)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
