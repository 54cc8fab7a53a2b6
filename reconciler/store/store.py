"""The store: a small database beside the repository that remembers what was decided.

Reality wins over it (see `observe.py`) and it can be rebuilt from the labels on what runs. Every write of a
cluster's records names its lease, and is refused in the same transaction when the lease's token is no longer
the newest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Engine, delete, insert, select

from reconciler.records import Event, JournalEntry, Lease, NodeObservation, Recorded, StoreChange
from reconciler.store import backup as backups
from reconciler.store import changes as writes
from reconciler.store import leases, rows, tables
from reconciler.store.engine import complaints, reading, sqlite_engine, writing
from reconciler.store.migrate import migrate
from schemas.errors import StoreError


class Store:
    """Open with `Store.open`; every method raises StoreError (LeaseHeld and LeaseLost among its kinds) and
    nothing else. Thread-safe."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self._engine = engine

    @classmethod
    def open(cls, path: Path) -> Self:
        """The store at `path`, made (mode 0600, in a directory that git ignores) or migrated where needed."""
        with complaints(path):
            _prepare(path)
        engine = sqlite_engine(path)
        try:
            migrate(engine, path)
        except BaseException:
            engine.dispose()
            raise
        return cls(path, engine)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Records

    def recorded(self, cluster: str) -> dict[str, Recorded]:
        """Everything recorded of one cluster, by identity, in the order of identities."""
        query = select(tables.resources).where(tables.resources.c.cluster == cluster)
        with reading(self._engine, self.path) as connection:
            found = [rows.recorded(row) for row in connection.execute(query).mappings()]
        return {record.resource: record for record in sorted(found, key=lambda record: record.resource)}

    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters that have records."""
        query = select(tables.resources.c.cluster).distinct()
        with reading(self._engine, self.path) as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def write(self, lease: Lease, changes: Iterable[StoreChange]) -> None:
        """All of `changes` or nothing. Raises LeaseLost when the lease is no longer the newest."""
        with writing(self._engine, self.path) as connection:
            leases.check(connection, lease)
            writes.write(connection, lease, changes)

    # Leases

    def acquire(self, cluster: str, holder: str, ttl: float, now: float) -> Lease:
        """The right to write, for `ttl` seconds from `now`. Raises LeaseHeld while somebody else has it.

        A lease that expired, or whose process on this machine is gone, is taken over.
        """
        with writing(self._engine, self.path) as connection:
            return leases.acquire(connection, cluster, holder, ttl, now)

    def steal(self, cluster: str, holder: str, ttl: float, now: float) -> Lease:
        """Take the lease whoever has it; the old holder's next write fails with LeaseLost."""
        with writing(self._engine, self.path) as connection:
            return leases.acquire(connection, cluster, holder, ttl, now, steal=True)

    def renew(self, lease: Lease, now: float) -> Lease:
        """The same lease, good for its `ttl` from `now`. Raises LeaseLost."""
        with writing(self._engine, self.path) as connection:
            return leases.renew(connection, lease, now)

    def release(self, lease: Lease) -> None:
        """Give a lease back. One that was taken over meanwhile stays with its new holder."""
        with writing(self._engine, self.path) as connection:
            leases.release(connection, lease)

    def unlock(self, cluster: str) -> Lease | None:
        """Break the lease; gives the one that was broken, or None when nobody held it."""
        with writing(self._engine, self.path) as connection:
            return leases.unlock(connection, cluster)

    def lease(self, cluster: str) -> Lease | None:
        """The lease that is held, expired or not, or None."""
        with reading(self._engine, self.path) as connection:
            return leases.current(connection, cluster)

    # Journal and events

    def journal(self, cluster: str, apply: str | None = None) -> tuple[JournalEntry, ...]:
        """The journal in order, of one apply or of all."""
        query = (
            select(tables.journal).where(tables.journal.c.cluster == cluster).order_by(tables.journal.c.seq)
        )
        if apply is not None:
            query = query.where(tables.journal.c.apply == apply)
        with reading(self._engine, self.path) as connection:
            return tuple(rows.journal_entry(row) for row in connection.execute(query).mappings())

    def open_intents(self, cluster: str) -> tuple[JournalEntry, ...]:
        """Steps that were about to happen and of which it is not known whether they did."""
        table = tables.open_intents
        query = (
            select(table).where(table.c.cluster == cluster).order_by(table.c.at, *table.primary_key.columns)
        )
        with reading(self._engine, self.path) as connection:
            return tuple(rows.open_intent(row) for row in connection.execute(query).mappings())

    def events(
        self, cluster: str, *, resource: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[Event, ...]:
        """Events with `seq` above `after`, oldest first; with `limit`, only the newest so many."""
        table = tables.events
        query = (
            select(table).where(table.c.cluster == cluster, table.c.seq > after).order_by(table.c.seq.desc())
        )
        if resource is not None:
            query = query.where(table.c.resource == resource)
        with reading(self._engine, self.path) as connection:
            found = [rows.event(row) for row in connection.execute(query.limit(limit)).mappings()]
        return tuple(reversed(found))

    # What was seen and planned

    def save_hardware(self, cluster: str, node: str, hardware: str, now: float) -> None:
        """Remember a node's probe (JSON text), replacing the last."""
        table = tables.hardware
        with writing(self._engine, self.path) as connection:
            connection.execute(delete(table).where(table.c.cluster == cluster, table.c.node == node))
            connection.execute(insert(table).values(cluster=cluster, node=node, document=hardware, at=now))

    def hardware(self, cluster: str) -> dict[str, NodeObservation]:
        """What each node was last seen to be, by node name."""
        query = select(tables.hardware).where(tables.hardware.c.cluster == cluster)
        with reading(self._engine, self.path) as connection:
            found = [rows.node_observation(row) for row in connection.execute(query).mappings()]
        return {each.node: each for each in sorted(found, key=lambda each: each.node)}

    def save_plan(self, cluster: str, digest: str, document: str, now: float) -> None:
        """Keep a plan under its digest."""
        with writing(self._engine, self.path) as connection:
            connection.execute(delete(tables.plans).where(tables.plans.c.digest == digest))
            connection.execute(
                insert(tables.plans).values(cluster=cluster, digest=digest, document=document, at=now)
            )

    def saved_plan(self, digest: str) -> str | None:
        with reading(self._engine, self.path) as connection:
            return connection.execute(
                select(tables.plans.c.document).where(tables.plans.c.digest == digest)
            ).scalar()

    def meta(self, key: str) -> str | None:
        with reading(self._engine, self.path) as connection:
            return connection.execute(select(tables.meta.c.value).where(tables.meta.c.key == key)).scalar()

    def set_meta(self, key: str, value: str) -> None:
        with writing(self._engine, self.path) as connection:
            connection.execute(delete(tables.meta).where(tables.meta.c.key == key))
            connection.execute(insert(tables.meta).values(key=key, value=value))

    # Safety copies

    def backup(self, target: Path) -> None:
        """A consistent copy while others go on writing; `target` appears whole or not at all."""
        with complaints(self.path):
            backups.backup(self.path, target)

    @classmethod
    def restore(cls, path: Path, source: Path, now: float) -> None:
        """Replace the store at `path` by the backup `source`, after checking it.

        Raises StoreError when the backup is not a sound store of bai's, and LeaseHeld while somebody is
        applying.
        """
        backups.restore(path, source, now)


def _prepare(path: Path) -> None:
    if path.is_dir():
        raise StoreError(store=path, why="it is a directory")
    if not path.parent.exists():
        path.parent.mkdir(parents=True, mode=0o700)
        if path.parent.name == ".bai":
            (path.parent / ".gitignore").write_text("*\n")
    if not path.exists():
        # Made before the database opens it: its side files take over the mode.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
