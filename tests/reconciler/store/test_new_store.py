"""A store that is made at once is the store that the migrations make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, String, inspect, text
from sqlalchemy.types import TypeEngine

from reconciler.store.database.engine import write_transaction
from reconciler.store.database.sqlite import sqlite_engine
from reconciler.store.maintenance.migrate import run_migrations
from reconciler.store.maintenance.new_store import create_tables


def test_a_new_store_is_what_the_migrations_make(tmp_path: Path) -> None:
    found = []
    for name, fill in (("fresh", create_tables), ("migrated", run_migrations)):
        engine = sqlite_engine(tmp_path / name)
        with write_transaction(engine, name) as connection:
            fill(connection)
        found.append(_shape(engine))
        engine.dispose()
    assert found[0] == found[1]
    assert len(found[0]["audit_no_delete"]) > 0


def _shape(engine: Engine) -> dict[str, Any]:
    """Columns and indexes of each table, the text of triggers, and the revision. The lengths of texts, to
    which SQLite does not keep, are left out."""
    seen = inspect(engine)
    shape: dict[str, Any] = {}
    for table in seen.get_table_names():
        columns = [
            (one["name"], _sort(one["type"]), one["nullable"], one["default"])
            for one in seen.get_columns(table)
        ]
        indexes = {one["name"]: (one["column_names"], one["unique"]) for one in seen.get_indexes(table)}
        shape[table] = (columns, seen.get_pk_constraint(table)["constrained_columns"], indexes)
    with engine.begin() as connection:
        triggers = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        shape |= {name: body for name, body in triggers}
        shape["revision"] = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return shape


def _sort(column: TypeEngine[Any]) -> str:
    return "text" if isinstance(column, String) else str(column)
