"""Connections and transactions: how a store is opened, how a database's complaint becomes a `StoreError`."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from schemas.errors import StoreError

BUSY_MS = 30_000
_BEGIN = "bai_begin"


def sqlite_engine(path: Path) -> Engine:
    """An engine over one SQLite file: foreign keys on, waiting for other writers, every commit on the disk
    before it counts."""
    engine = create_engine(URL.create("sqlite", database=str(path)), pool_size=4, max_overflow=16)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver's own transaction handling would start writers as readers, which cannot wait for each other.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))


@contextlib.contextmanager
def reading(engine: Engine, store: Path) -> Iterator[Connection]:
    """One consistent read."""
    with complaints(store), engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def writing(engine: Engine, store: Path) -> Iterator[Connection]:
    """One write transaction, exclusive from its start; rolled back when the body raises."""
    with complaints(store), engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}).begin() as connection:
        yield connection


@contextlib.contextmanager
def complaints(store: Path) -> Iterator[None]:
    """Turn what the database says into a `StoreError` a person can act on."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError, ValueError) as error:
        raise StoreError(store=store, why=_why(error), hint=_hint(error)) from error


def _why(error: BaseException) -> str:
    return str(error.orig if isinstance(error, DBAPIError) else error)


def _hint(error: BaseException) -> str:
    cause = error.orig if isinstance(error, OperationalError) else error
    text = str(cause)
    if "locked" in text or "busy" in text:
        return "another process is writing to it; try again"
    if "malformed" in text or "not a database" in text:
        return "restore a backup with `bai state restore`, or delete the file and run `bai state rebuild`"
    return ""
