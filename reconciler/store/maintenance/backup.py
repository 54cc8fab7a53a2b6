"""Safety copies of a store: always one SQLite file, whatever the store itself is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine, delete

from reconciler.store import audit
from reconciler.store.database import tables
from reconciler.store.database.address import Address
from reconciler.store.database.engine import complaints, open_engine, reading, sqlite_engine, writing
from reconciler.store.maintenance import files, transfer
from reconciler.store.maintenance.migrate import current, migrate
from reconciler.values.records import Audit
from schemas.problems.errors import StoreError


def backup(engine: Engine, address: Address, target: Path) -> None:
    """Copy the store to `target` (mode 0600), through a temporary file beside it."""
    with complaints(target), files.beside(target) as draft:
        if address.path is not None:
            files.copy(address.path, draft)
        else:
            _export(engine, address, draft)
        files.make_single(draft)
        files.finish(draft, target)


def _export(engine: Engine, address: Address, draft: Path) -> None:
    """A server's store as a file."""
    copy = sqlite_engine(draft)
    try:
        migrate(copy, draft)
        with reading(engine, address) as source, writing(copy, draft) as target:
            transfer.fill(target, source)
    finally:
        copy.dispose()


def restore(address: Address, source: Path, now: float, actor: str) -> None:
    """See `Store.restore`."""
    if not source.is_file():
        raise StoreError(store=source, why="there is no such file")
    if address.path is None:
        _restore_server(address, source, now, actor)
    else:
        _restore_file(address.path, source, now, actor)


def _restore_file(path: Path, source: Path, now: float, actor: str) -> None:
    with complaints(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.beside(path) as draft:
            with _of_a_copy():
                _take(source, draft)
            kept = _kept(path, now)
            engine = sqlite_engine(draft)
            try:
                with writing(engine, draft) as connection:
                    _settle(connection, kept, source, now, actor)
            finally:
                engine.dispose()
            files.put_in_place(draft, path)


def _restore_server(address: Address, source: Path, now: float, actor: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bai-restore-") as folder:
        draft = Path(folder) / "store.db"
        draft.touch(mode=0o600)
        with _of_a_copy():
            _take(source, draft)
        copy, engine = sqlite_engine(draft), open_engine(address)
        try:
            migrate(engine, address, schema=address.schema, moved=True)
            with writing(engine, address) as target, reading(copy, source) as found:
                transfer.lock(target)
                kept = transfer.Kept.of(target, now)
                transfer.fill(target, found)
                _settle(target, kept, source, now, actor)
        finally:
            copy.dispose()
            engine.dispose()


def _settle(connection: Connection, kept: transfer.Kept, source: Path, now: float, actor: str) -> None:
    transfer.settle(connection, kept)
    # What was placed since the backup is not known: every node must be seen again first.
    connection.execute(delete(tables.contacts))
    entry = Audit("restore", "", now, f"the store was replaced by the copy {source.name}", actor)
    for cluster in transfer.clusters(connection):
        audit.add(connection, cluster, [entry], actor)


def _take(source: Path, draft: Path) -> None:
    """A copy of `source` that is sound, bai's, and of this program's revision."""
    with complaints(source):
        files.copy(source, draft)
    engine = sqlite_engine(draft)
    try:
        with reading(engine, source) as connection:
            verdict = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
            if verdict != "ok":
                raise StoreError(store=source, why=f"it is damaged: {verdict}")
            if current(connection, source) is None:
                raise StoreError(store=source, why="it is empty")
        migrate(engine, source, moved=True)
        with writing(engine, source) as connection:
            transfer.forget_move(connection)
    finally:
        engine.dispose()


@contextlib.contextmanager
def _of_a_copy() -> Iterator[None]:
    """What is to be done about a damaged store is no advice about a copy of one."""
    try:
        yield
    except StoreError as error:
        error.hint = "a copy is what `bai state backup` writes"
        raise


def _kept(path: Path, now: float) -> transfer.Kept:
    """Of the file to be replaced; nothing when it is missing, unreadable, or older than what there is to
    keep."""
    if not path.exists() or path.stat().st_size == 0:
        return transfer.Kept()
    engine = sqlite_engine(path)
    try:
        migrate(engine, path, moved=True)
        with reading(engine, path) as connection:
            return transfer.Kept.of(connection, now)
    except StoreError as error:
        if type(error) is not StoreError:
            raise
        return transfer.Kept()
    finally:
        engine.dispose()
