"""A store's file that cannot be used is moved aside, never deleted: what it was may still be of worth."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sqlalchemy import Connection, inspect

from reconciler.store.database.database_errors import is_environment_failure
from reconciler.store.database.engine import read_transaction
from reconciler.store.database.sqlite import sqlite_engine
from reconciler.store.database.tables import metadata
from reconciler.store.maintenance.migrate import migrate
from schemas.files.regular_files import require_regular_path
from schemas.problems.errors.store import StoreError, StoreMoved, StoreUnavailable

FILE_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""What belongs to one store, by how the names end."""


def unusable_reason(path: Path) -> str:
    """What is wrong with a store's file; empty where there is none, or nothing is wrong.

    Raises StoreError for what is not the file's fault: another writer, a full disk, a store that was moved.
    """
    for side in FILE_SUFFIXES:
        if why := _file_problem(Path(f"{path}{side}")):
            return why
    if not path.exists() or not path.stat().st_size:
        return ""
    engine = sqlite_engine(path)
    try:
        migrate(engine, path)
        with read_transaction(engine, path) as connection:
            return _database_damage(connection)
    except (StoreMoved, StoreUnavailable):
        raise
    except StoreError as error:
        if is_environment_failure(error):
            raise
        return str(error.fields["why"])
    finally:
        engine.dispose()


def quarantine_files(path: Path) -> Path:
    """Rename the store's files; gives the new name of the first. Raises StoreError."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = Path(f"{path}.set-aside-{stamp}-{os.getpid()}")
    try:
        for side in reversed(FILE_SUFFIXES):
            if os.path.lexists(old := f"{path}{side}"):
                os.rename(old, f"{target}{side}")
    except OSError as error:
        why = f"it cannot be set aside as {target.name}: {error.strerror}"
        raise StoreError(store=path, why=why, hint=f"who may write to {path.parent}?") from error
    return target


def _file_problem(path: Path) -> str:
    try:
        require_regular_path(path)
        for use, may in (("read", os.R_OK), ("written", os.W_OK)):
            if not os.access(path, may):
                return f"it may not be {use} by this user"
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path.name}: {error.strerror}"
    return ""


def _database_damage(connection: Connection) -> str:
    verdict = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    if verdict != "ok":
        return f"it is damaged: {verdict}"
    found = inspect(connection)
    for table in metadata.tables.values():
        there = (
            {each["name"] for each in found.get_columns(table.name)} if found.has_table(table.name) else ()
        )
        missing = [column.name for column in table.columns if column.name not in there]
        if missing:
            return f"its table {table.name} lacks {', '.join(missing)}"
    return ""
