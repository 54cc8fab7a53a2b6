"""A new store in a file: its tables at once, as the migrations leave them.

To load Alembic and go through all migrations takes longer than the first apply itself.
"""

from __future__ import annotations

import functools

from sqlalchemy import Column, Connection, MetaData, String, Table, create_mock_engine
from sqlalchemy.schema import ExecutableDDLElement

from reconciler.store.database.revision import REVISION
from reconciler.store.database.tables import metadata

_VERSION_TABLE = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
_APPEND_ONLY_MESSAGE = "the audit is append-only"


@functools.cache
def _table_statements() -> tuple[str, ...]:
    """Written once for all stores that a process makes."""
    statements: list[str] = []

    def take(statement: ExecutableDDLElement, *_: object) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine("sqlite://", take)
    metadata.create_all(engine, checkfirst=False)
    _VERSION_TABLE.create(engine, checkfirst=False)
    return tuple(statements)


def create_tables(connection: Connection) -> None:
    """Fill an empty SQLite database, within the transaction of `connection`."""
    for statement in _table_statements():
        connection.exec_driver_sql(statement)
    for what in ("UPDATE", "DELETE"):
        connection.exec_driver_sql(
            f"CREATE TRIGGER audit_no_{what.lower()} BEFORE {what} ON audit "
            f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY_MESSAGE}'); END"
        )
    connection.execute(_VERSION_TABLE.insert().values(version_num=REVISION))
