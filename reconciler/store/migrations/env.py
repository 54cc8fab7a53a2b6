"""Alembic's entry: always on the connection that `migrate.py` hands over."""

from __future__ import annotations

from alembic import context

from reconciler.store.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False
)
context.run_migrations()
