"""A store's contents to another place for good: from a file to a server as the team grows, and back.

Nobody can write to either while it happens. The old store says from then on where its contents went, so that
no two of them are ever written to; killed in between, the same move is done again.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, delete, func, select

from reconciler.store import audit
from reconciler.store.database import tables
from reconciler.store.database.address import Address
from reconciler.store.database.engine import complaints, open_engine, writing
from reconciler.store.database.upsert import replace_row
from reconciler.store.maintenance import transfer
from reconciler.store.maintenance.files import beside, finish, make_folder, prepare
from reconciler.store.maintenance.migrate import MOVED, migrate
from reconciler.values.records import Audit
from schemas.problems.errors import StoreError

_FROM = "moved-from"
_REPOSITORY = "repo"


def move(source: Address, target: Address, *, now: float, actor: str) -> int:
    """Move everything; gives how many resources are recorded.

    Raises LeaseHeld while somebody is applying, StoreError when `target` has records of its own.
    """
    if (source.path, source.plain_url, source.schema) == (target.path, target.plain_url, target.schema):
        raise StoreError(store=target, why="it is the same store")
    prepare(target)
    old, new = open_engine(source), open_engine(target)
    try:
        migrate(old, source, schema=source.schema)
        migrate(new, target, schema=target.schema, moved=True)
        with writing(old, source) as here, writing(new, target) as there:
            transfer.lock(here)
            transfer.lock(there)
            leaving = transfer.Kept.of(here, now)
            kept = transfer.Kept.of(there, now)
            _refuse_occupied(there, source, target)
            transfer.fill(there, here)
            transfer.settle(there, kept)
            _arrive(there, source, target, now, actor)
            count: int = there.execute(select(func.count()).select_from(tables.resources)).scalar_one()
            # The new one is complete and on its disk before the old one is given up.
            there.commit()
            _leave(here, leaving, target)
        _bring_key(source.key_file, target.key_file)
        return count
    finally:
        old.dispose()
        new.dispose()


def _bring_key(source: Path, target: Path) -> None:
    """The key of the sessions' key pairs, unless there is one already; the store tells when it is another."""
    if source.exists() and not target.exists():
        with complaints(target):
            make_folder(target)
            with beside(target) as draft:
                draft.write_bytes(source.read_bytes())
                finish(draft, target)


def _refuse_occupied(connection: Connection, source: Address, target: Address) -> None:
    """It may be empty, or given up, or filled by an attempt at this move that did not come to its end."""
    pairs = connection.execute(select(tables.meta.c.key, tables.meta.c.value))
    known = {key: value for key, value in pairs}
    newest = connection.execute(
        select(tables.audit.c.verb).order_by(tables.audit.c.seq.desc()).limit(1)
    ).scalar()
    again = known.get(_FROM) == str(source) and newest in (None, "move")
    if MOVED in known or again:
        return
    for table in (tables.resources, tables.events, tables.audit):
        if connection.execute(select(table.c.cluster).limit(1)).first() is not None:
            raise StoreError(
                store=target,
                why="it has records of its own",
                hint="move to a database or file that is empty, or `bai state restore` a copy over it",
            )


def _arrive(connection: Connection, source: Address, target: Address, now: float, actor: str) -> None:
    transfer.forget_move(connection)
    clusters = transfer.clusters(connection)
    repository = connection.execute(
        select(tables.meta.c.value).where(tables.meta.c.key == _REPOSITORY)
    ).scalar()
    if repository is not None:
        # A file belongs to one repository, a server serves many.
        for cluster in clusters:
            replace_row(connection, tables.meta, {"key": f"{_REPOSITORY}/{cluster}", "value": repository})
        connection.execute(delete(tables.meta).where(tables.meta.c.key == _REPOSITORY))
    replace_row(connection, tables.meta, {"key": _FROM, "value": str(source)})
    entry = Audit("move", "", now, f"the store was moved from {source} to {target}", actor)
    for cluster in clusters:
        audit.add(connection, cluster, [entry], actor)


def _leave(connection: Connection, kept: transfer.Kept, target: Address) -> None:
    """Whoever still has a lease here is refused from now on."""
    transfer.settle(connection, transfer.Kept(kept.leases))
    replace_row(connection, tables.meta, {"key": MOVED, "value": str(target)})
