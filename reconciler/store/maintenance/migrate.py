"""Bring a store's tables to this program's revision, or say why that cannot be."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, column, func, inspect, select, table, text
from sqlalchemy.schema import CreateSchema

from reconciler.store.database.engine import is_server, query_connection, write_transaction
from reconciler.store.database.revision import MOVED_KEY, REVISION
from reconciler.store.database.tables import meta
from reconciler.store.maintenance.new_store import create_tables
from schemas.problems.errors.store import StoreError, StoreMoved, StoreUnavailable

MIGRATIONS = Path(__file__).parents[1] / "migrations"
_MOVED = select(meta.c.value).where(meta.c.key == MOVED_KEY)
_MIGRATION_LOCK = 0x62616900
"""Advisory lock of the server that whoever migrates a store holds."""


def migrate(engine: Engine, store: object, *, schema: str = "", moved: bool = False) -> None:
    """Run what migrations are missing, in one transaction; nothing at all when the store is up to date. Of
    several that open it at once, one does it and the others wait.

    Raises StoreError for a database that is not bai's, or that a newer bai has written; StoreMoved for one
    whose contents went elsewhere, unless `moved`.
    """
    found, gone = _read_revision_and_move(engine, store)
    if found == REVISION:
        if gone is not None and not moved:
            raise _moved_error(store, gone)
        return
    with write_transaction(engine, store) as connection:
        if is_server(connection):
            connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            if schema:
                connection.execute(CreateSchema(schema, if_not_exists=True))
        found = current_revision(connection, store)
        if found is None and not is_server(connection):
            create_tables(connection)
        elif found != REVISION:
            _raise_if_newer(found, store)
            run_migrations(connection)
        if not moved:
            raise_if_moved(connection, store)


def current_revision(connection: Connection, store: object) -> str | None:
    """The store's revision; None for an empty database."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if not {"alembic_version", "resources", "leases"} <= tables:
        hint = "give it a database or a schema (`?schema=NAME`) of its own" if is_server(connection) else ""
        raise StoreError(store=store, why="it is a database of some other program", hint=hint)
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def raise_if_moved(connection: Connection, store: object) -> None:
    """Raise StoreMoved for a store whose contents went elsewhere."""
    target = connection.execute(_MOVED).scalar()
    if target is not None:
        raise _moved_error(store, target)


def _moved_error(store: object, target: str) -> StoreMoved:
    return StoreMoved(
        store=store, target=target, hint="use that one: --state, BAI_STATE, or the cluster's `state:`"
    )


def _read_revision_and_move(engine: Engine, store: object) -> tuple[str | None, str | None]:
    """Revision, and where it was moved to, in one question; nothing where that cannot be answered so."""
    went = _MOVED.scalar_subquery()
    question = select(column("version_num"), went).select_from(table("alembic_version"))
    try:
        with query_connection(engine, store) as connection:
            row = connection.execute(question).first()
    except StoreUnavailable:
        raise
    except StoreError:
        return None, None
    return (row[0], row[1]) if row is not None else (None, None)


def _raise_if_newer(found: str | None, store: object) -> None:
    known = {path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")}
    if found is not None and found not in known:
        raise StoreError(
            store=store,
            why=f"a newer bai wrote it (revision {found}, this one knows {REVISION})",
            hint="update bai",
        )


def run_migrations(connection: Connection) -> None:
    """Run the migrations that are missing."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
