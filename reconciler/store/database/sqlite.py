"""The engine of a store that is one file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry

from reconciler.store.database.questions import BUSY_MS

CONNECTIONS = 8
"""To one file at a time. SQLite gives no descriptor of it back while another connection is open: were they
closed and opened anew, their number would grow to the most that ever were, and stay there."""
BEGIN, IMMEDIATE = "bai_begin", "BEGIN IMMEDIATE"


def sqlite_engine(path: Path) -> Engine:
    """An engine over one SQLite file: foreign keys on, waiting for other writers, every commit on the disk
    before it counts."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)), pool_size=CONNECTIONS, max_overflow=0, pool_timeout=60
    )
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver's own transaction handling would start writers as readers, which cannot wait for each other.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    _enter_wal_mode(cursor)
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _enter_wal_mode(cursor: DBAPICursor) -> None:
    """A file stays in this mode, so that only the first ones there have anything to do."""
    cursor.execute("PRAGMA journal_mode")
    if cursor.fetchone() == ("wal",):
        return
    # Only who makes a store loads it: commands that read answer sooner.
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

    # While another connection fills the file, SQLite refuses this at once, whatever its busy timeout is.
    retrying = Retrying(
        retry=retry_if_exception(_is_in_use),
        stop=stop_after_delay(BUSY_MS / 1000),
        wait=wait_random(0.005, 0.05),
        reraise=True,
    )
    retrying(cursor.execute, "PRAGMA journal_mode = WAL")


def _is_in_use(error: BaseException) -> bool:
    name = error.sqlite_errorname if isinstance(error, sqlite3.OperationalError) else ""
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))
