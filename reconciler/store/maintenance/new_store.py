"""A new store in a file: its tables at once, as the migrations leave them.

To load Alembic and go through all migrations takes longer than the first apply itself.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table

from reconciler.store.database.revision import REVISION
from reconciler.store.database.tables import metadata

_VERSION_TABLE = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
_APPEND_ONLY_MESSAGE = "the audit is append-only"


def create_tables(connection: Connection) -> None:
    """Fill an empty SQLite database, within the transaction of `connection`."""
    metadata.create_all(connection, checkfirst=False)
    for what in ("UPDATE", "DELETE"):
        connection.exec_driver_sql(
            f"CREATE TRIGGER audit_no_{what.lower()} BEFORE {what} ON audit "
            f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY_MESSAGE}'); END"
        )
    _VERSION_TABLE.create(connection, checkfirst=False)
    connection.execute(_VERSION_TABLE.insert().values(version_num=REVISION))
