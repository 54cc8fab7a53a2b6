"""Insert where there may already be a row: both engines say it alike, SQLAlchemy does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table

from reconciler.store.database.engine import is_server

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def replace_row(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Put the row there, in place of the one with its primary key."""
    keys = [column.name for column in table.primary_key.columns]
    inserted = _insert(connection, table).values(**values)
    rest = {name: inserted.excluded[name] for name in values if name not in keys}
    connection.execute(inserted.on_conflict_do_update(index_elements=keys, set_=rest))


def insert_missing(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Put the row there unless there is one with its primary key."""
    connection.execute(_insert(connection, table).values(**values).on_conflict_do_nothing())


def _insert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    if is_server(connection):
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
