"""Safety copies of a SQLite store, with SQLite's own online backup."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select, update

from reconciler.store import leases, tables
from reconciler.store.engine import complaints, reading, sqlite_engine, writing
from reconciler.store.migrate import current, migrate
from schemas.errors import StoreError


def backup(path: Path, target: Path) -> None:
    """Copy the store at `path` to `target` (mode 0600), through a temporary file beside it."""
    with _beside(target) as temporary:
        _copy(path, temporary)
        _make_single(temporary)
        _sync(temporary)
        os.replace(temporary, target)
        _sync(target.parent)


def restore(path: Path, source: Path, now: float) -> None:
    """See `Store.restore`."""
    if not source.is_file():
        raise StoreError(store=source, why="there is no such file")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with complaints(path), _beside(path) as temporary:
        with complaints(source):
            _copy(source, temporary)
        _validate(temporary, source)
        _raise_tokens(temporary, _tokens(path, now))
        _put_in_place(temporary, path)


def _copy(source: Path, target: Path) -> None:
    read_only = f"file:{_quoted(source)}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(read_only, uri=True)) as reader,
        contextlib.closing(sqlite3.connect(target)) as writer,
    ):
        reader.backup(writer)


def _make_single(path: Path) -> None:
    """One file, readable from anywhere: no write-ahead log beside it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))


def _validate(copy: Path, source: Path) -> None:
    """The copy of `source` is sound and bai's, and has this program's revision afterwards."""
    engine = sqlite_engine(copy)
    try:
        with reading(engine, source) as connection:
            verdict = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
            if verdict != "ok":
                raise StoreError(store=source, why=f"it is damaged: {verdict}")
            if current(connection, source) is None:
                raise StoreError(store=source, why="it is empty")
        migrate(engine, source)
    finally:
        engine.dispose()


def _tokens(path: Path, now: float) -> dict[str, int]:
    """The newest fencing tokens of the store to be replaced; none when it is missing or unreadable."""
    if not path.exists() or path.stat().st_size == 0:
        return {}
    engine = sqlite_engine(path)
    try:
        with reading(engine, path) as connection:
            found = list(connection.execute(select(tables.leases)).mappings())
    except StoreError:
        return {}
    finally:
        engine.dispose()
    for row in found:
        leases.refuse_while_held(row, now)
    return {row["cluster"]: row["token"] for row in found}


def _raise_tokens(copy: Path, tokens: dict[str, int]) -> None:
    """No token comes twice: whoever held a lease before the restore stays refused after it."""
    engine = sqlite_engine(copy)
    table = tables.leases
    try:
        with writing(engine, copy) as connection:
            for row in list(connection.execute(select(table)).mappings()):
                token = max(row["token"], tokens.get(row["cluster"], 0)) + 1
                mine = table.c.cluster == row["cluster"]
                connection.execute(update(table).where(mine).values(token=token, held=False))
    finally:
        engine.dispose()


def _put_in_place(copy: Path, path: Path) -> None:
    """Over a readable store through SQLite, so that its write-ahead log cannot be mixed up; else by replacing
    the file."""
    try:
        if path.exists() and path.stat().st_size:
            _copy(copy, path)
            return
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        os.replace(path, path.with_name(path.name + ".damaged"))
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    os.replace(copy, path)
    _sync(path.parent)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for side in ("", "-wal", "-shm", "-journal"):
            Path(name + side).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
