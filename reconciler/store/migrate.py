"""Bring a store's tables to this program's revision, or say why that cannot be."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from reconciler.store.engine import reading, writing
from reconciler.store.tables import REVISION
from schemas.errors import StoreError

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(engine: Engine, store: Path) -> None:
    """Run what migrations are missing, in one transaction; nothing at all when the store is up to date.

    Raises StoreError for a database that is not bai's, or that a newer bai has written.
    """
    with reading(engine, store) as connection:
        if current(connection, store) == REVISION:
            return
    with writing(engine, store) as connection:
        found = current(connection, store)
        if found != REVISION:
            _refuse_unknown(found, store)
            _upgrade(connection)


def current(connection: Connection, store: Path) -> str | None:
    """The store's revision; None for an empty database."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if not {"alembic_version", "resources", "leases"} <= tables:
        raise StoreError(store=store, why="it is a database of some other program")
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _refuse_unknown(found: str | None, store: Path) -> None:
    known = {path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")}
    if found is not None and found not in known:
        raise StoreError(
            store=store,
            why=f"a newer bai wrote it (revision {found}, this one knows {REVISION})",
            hint="update bai",
        )


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
