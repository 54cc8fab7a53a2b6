"""A store's contents to another place for good: from a file to a server as the team grows, and back.

Nobody can write to either while it happens. The old store says from then on where its contents went, so that
no two of them are ever written to; killed in between, the same move is done again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, select

from reconciler.store import audit
from reconciler.store.database import tables
from reconciler.store.database.database_errors import translate_errors
from reconciler.store.database.engine import open_engine, write_transaction
from reconciler.store.database.revision import MOVED_KEY
from reconciler.store.database.upsert import replace_row
from reconciler.store.maintenance import transfer
from reconciler.store.maintenance.files import (
    create_store_file,
    create_store_folder,
    draft_beside,
    publish_draft,
)
from reconciler.store.maintenance.migrate import migrate
from reconciler.values.records import Audit
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from reconciler.store.database.address import StoreAddress

_MOVED_FROM_KEY = "moved-from"
_REPOSITORY_KEY = "repo"


def move_store(source: StoreAddress, target: StoreAddress, *, now: float, actor: str) -> int:
    """Move everything; gives how many resources are recorded.

    Raises LeaseHeld while somebody is applying, StoreError when `target` has records of its own.
    """
    if (source.path, source.plain_url, source.schema) == (target.path, target.plain_url, target.schema):
        raise StoreError(store=target, why="it is the same store")
    create_store_file(target)
    old, new = open_engine(source), open_engine(target)
    try:
        migrate(old, source, schema=source.schema)
        migrate(new, target, schema=target.schema, moved=True)
        with write_transaction(old, source) as here, write_transaction(new, target) as there:
            transfer.lock_tables(here)
            transfer.lock_tables(there)
            leaving = transfer.PreservedRows.of(here, now)
            kept = transfer.PreservedRows.of(there, now)
            _raise_if_occupied(there, source, target)
            transfer.replace_contents(there, here)
            transfer.restore_preserved(there, kept)
            _record_arrival(there, source, target, now, actor)
            count: int = there.execute(select(func.count()).select_from(tables.resources)).scalar_one()
            # The new one is complete and on its disk before the old one is given up.
            there.commit()
            _mark_moved(here, leaving, target)
        _copy_key_file(source.key_file, target.key_file)
        return count
    finally:
        old.dispose()
        new.dispose()


def _copy_key_file(source: Path, target: Path) -> None:
    """The key of the sessions' key pairs, unless there is one already; the store tells when it is another."""
    if source.exists() and not target.exists():
        with translate_errors(target):
            create_store_folder(target)
            with draft_beside(target) as draft:
                draft.write_bytes(source.read_bytes())
                publish_draft(draft, target)


def _raise_if_occupied(connection: Connection, source: StoreAddress, target: StoreAddress) -> None:
    """It may be empty, or given up, or filled by an attempt at this move that did not come to its end."""
    pairs = connection.execute(select(tables.meta.c.key, tables.meta.c.value))
    known = {key: value for key, value in pairs}
    newest = connection.execute(
        select(tables.audit.c.verb).order_by(tables.audit.c.seq.desc()).limit(1)
    ).scalar()
    again = known.get(_MOVED_FROM_KEY) == str(source) and newest in (None, "move")
    if MOVED_KEY in known or again:
        return
    for table in (tables.resources, tables.events, tables.audit):
        if connection.execute(select(table.c.cluster).limit(1)).first() is not None:
            raise StoreError(
                store=target,
                why="it has records of its own",
                hint="move to a database or file that is empty, or `bai state restore` a copy over it",
            )


def _record_arrival(
    connection: Connection, source: StoreAddress, target: StoreAddress, now: float, actor: str
) -> None:
    transfer.clear_move_mark(connection)
    clusters = transfer.written_clusters(connection)
    repository = connection.execute(
        select(tables.meta.c.value).where(tables.meta.c.key == _REPOSITORY_KEY)
    ).scalar()
    if repository is not None:
        # A file belongs to one repository, a server serves many.
        for cluster in clusters:
            replace_row(connection, tables.meta, {"key": f"{_REPOSITORY_KEY}/{cluster}", "value": repository})
        connection.execute(delete(tables.meta).where(tables.meta.c.key == _REPOSITORY_KEY))
    replace_row(connection, tables.meta, {"key": _MOVED_FROM_KEY, "value": str(source)})
    entry = Audit("move", "", now, f"the store was moved from {source} to {target}", actor)
    for cluster in clusters:
        audit.append_entries(connection, cluster, [entry], actor)


def _mark_moved(connection: Connection, kept: transfer.PreservedRows, target: StoreAddress) -> None:
    """Whoever still has a lease here is refused from now on."""
    transfer.restore_preserved(connection, transfer.PreservedRows(kept.leases))
    replace_row(connection, tables.meta, {"key": MOVED_KEY, "value": str(target)})
