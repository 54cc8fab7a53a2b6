"""Insert where there may already be a row: both engines say it alike, SQLAlchemy does not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Executable, Table

from reconciler.store.database.engine import is_server

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def replace_row(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Put the row there, in place of the one with its primary key."""
    connection.execute(_replacing(is_server(connection), table, *values), values)


def insert_missing(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Put the row there unless there is one with its primary key; gives whether it was put there."""
    put = connection.execute(_inserting_missing(is_server(connection), table), values)
    return put.rowcount > 0


@lru_cache
def _replacing(on_server: bool, table: Table, *names: str) -> Executable:
    keys = [column.name for column in table.primary_key.columns]
    inserted = _insert(on_server, table)
    rest = {name: inserted.excluded[name] for name in names if name not in keys}
    return inserted.on_conflict_do_update(index_elements=keys, set_=rest)


@lru_cache
def _inserting_missing(on_server: bool, table: Table) -> Executable:
    # Of an insertion it is forgotten otherwise how many rows there were.
    return _insert(on_server, table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


def _insert(on_server: bool, table: Table) -> postgresql.Insert | sqlite.Insert:
    if on_server:
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
