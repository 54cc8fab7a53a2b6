"""Safety copies of a store: always one SQLite file, whatever the store itself is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, delete

from reconciler.store import audit
from reconciler.store.database import tables
from reconciler.store.database.database_errors import translate_errors
from reconciler.store.database.engine import open_engine, read_transaction, write_transaction
from reconciler.store.database.sqlite import sqlite_engine
from reconciler.store.maintenance import files, transfer
from reconciler.store.maintenance.migrate import current_revision, migrate
from reconciler.values.records import Audit
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from reconciler.store.database.address import StoreAddress


def backup(engine: Engine, address: StoreAddress, target: Path) -> None:
    """Copy the store to `target` (mode 0600), through a temporary file beside it."""
    with translate_errors(target), files.draft_beside(target) as draft:
        if address.path is not None:
            files.copy_database(address.path, draft)
        else:
            _export_server(engine, address, draft)
        files.leave_wal_mode(draft)
        files.publish_draft(draft, target)


def _export_server(engine: Engine, address: StoreAddress, draft: Path) -> None:
    """A server's store as a file."""
    copy = sqlite_engine(draft)
    try:
        migrate(copy, draft)
        with read_transaction(engine, address) as source, write_transaction(copy, draft) as target:
            transfer.replace_contents(target, source)
    finally:
        copy.dispose()


def restore(address: StoreAddress, source: Path, now: float, actor: str) -> None:
    """See `Store.restore`."""
    if not source.is_file():
        raise StoreError(store=source, why="there is no such file")
    if address.path is None:
        _restore_server(address, source, now, actor)
    else:
        _restore_file(address.path, source, now, actor)


def _restore_file(path: Path, source: Path, now: float, actor: str) -> None:
    with translate_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.draft_beside(path) as draft:
            with _with_backup_hint():
                _copy_checked(source, draft)
            kept = _preserved_rows(path, now)
            engine = sqlite_engine(draft)
            try:
                with write_transaction(engine, draft) as connection:
                    _finish_restore(connection, kept, source, now, actor)
            finally:
                engine.dispose()
            files.replace_store_file(draft, path)


def _restore_server(address: StoreAddress, source: Path, now: float, actor: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bai-restore-") as folder:
        draft = Path(folder) / "store.db"
        draft.touch(mode=0o600)
        with _with_backup_hint():
            _copy_checked(source, draft)
        copy, engine = sqlite_engine(draft), open_engine(address)
        try:
            migrate(engine, address, schema=address.schema, moved=True)
            with write_transaction(engine, address) as target, read_transaction(copy, source) as found:
                transfer.lock_tables(target)
                kept = transfer.PreservedRows.of(target, now)
                transfer.replace_contents(target, found)
                _finish_restore(target, kept, source, now, actor)
        finally:
            copy.dispose()
            engine.dispose()


def _finish_restore(
    connection: Connection, kept: transfer.PreservedRows, source: Path, now: float, actor: str
) -> None:
    transfer.restore_preserved(connection, kept)
    # What was placed since the backup is not known: every node must be seen again first.
    connection.execute(delete(tables.contacts))
    entry = Audit("restore", "", now, f"the store was replaced by the copy {source.name}", actor)
    for cluster in transfer.written_clusters(connection):
        audit.append_entries(connection, cluster, [entry], actor)


def _copy_checked(source: Path, draft: Path) -> None:
    """A copy of `source` that is sound, bai's, and of this program's revision."""
    with translate_errors(source):
        files.copy_database(source, draft)
    engine = sqlite_engine(draft)
    try:
        with read_transaction(engine, source) as connection:
            verdict = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
            if verdict != "ok":
                raise StoreError(store=source, why=f"it is damaged: {verdict}")
            if current_revision(connection, source) is None:
                raise StoreError(store=source, why="it is empty")
        migrate(engine, source, moved=True)
        with write_transaction(engine, source) as connection:
            transfer.clear_move_mark(connection)
    finally:
        engine.dispose()


@contextlib.contextmanager
def _with_backup_hint() -> Iterator[None]:
    """What is to be done about a damaged store is no advice about a copy of one."""
    try:
        yield
    except StoreError as error:
        error.hint = "a copy is what `bai state backup` writes"
        raise


def _preserved_rows(path: Path, now: float) -> transfer.PreservedRows:
    """Of the file to be replaced; nothing when it is missing, unreadable, or older than what there is to
    keep."""
    if not path.exists() or path.stat().st_size == 0:
        return transfer.PreservedRows()
    engine = sqlite_engine(path)
    try:
        migrate(engine, path, moved=True)
        with read_transaction(engine, path) as connection:
            return transfer.PreservedRows.of(connection, now)
    except StoreError as error:
        if type(error) is not StoreError:
            raise
        return transfer.PreservedRows()
    finally:
        engine.dispose()
