"""The engine of a store that is one file."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
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
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))
