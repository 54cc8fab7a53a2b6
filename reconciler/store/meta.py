"""What a store remembers under keys."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from reconciler.store.database.tables import meta
from reconciler.store.database.upsert import replace_row


def write_meta(connection: Connection, key: str, value: str | None) -> None:
    """Remember a value under a key; None forgets it."""
    if value is None:
        connection.execute(delete(meta).where(meta.c.key == key))
    else:
        replace_row(connection, meta, {"key": key, "value": value})
