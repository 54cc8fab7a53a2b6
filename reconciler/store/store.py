"""The store: a small database, beside the repository or on a server, that remembers what was decided.

Reality wins over it (see `observe.py`) and it can be rebuilt from the labels on what runs. Every write of a
cluster's records names its lease, and is refused in the same transaction when the lease's token is no longer
the newest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlalchemy import Connection, Engine, Table, func, select

from reconciler.store import audit, change_feed, clock_repair, leases, nodes, rows, usage_and_contact, writes
from reconciler.store.allocations import read_holdings
from reconciler.store.database import tables
from reconciler.store.database.address import StoreAddress
from reconciler.store.database.database_errors import translate_errors
from reconciler.store.database.engine import (
    asking,
    open_engine,
    query_connection,
    read_transaction,
    run_transaction,
)
from reconciler.store.database.questions import Ask
from reconciler.store.database.upsert import insert_missing, replace_row
from reconciler.store.figures.writes import write_figures
from reconciler.store.images import write_images
from reconciler.store.maintenance import backup
from reconciler.store.maintenance.files import create_store_file
from reconciler.store.maintenance.migrate import migrate, raise_if_moved
from reconciler.store.meta import write_meta
from reconciler.store.reader import StoreReader
from reconciler.store.reads import read_recorded
from reconciler.store.services.writes import (
    put_rollout_order,
    put_server_report,
    remove_rollout_order,
    remove_server_report,
)
from reconciler.values.records import (
    Audit,
    EnforcementRecord,
    Holdings,
    JournalEntry,
    Lease,
    StoreChange,
)
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from reconciler.values.figures.recorded import FigureRow
    from reconciler.values.services.server_report import SavedReport
    from reconciler.values.services.state import RolloutOrder
    from schemas.images.facts import ImageFacts

T = TypeVar("T")


class Store(StoreReader):
    """Open with `Store.open`; every method raises StoreError (LeaseHeld and LeaseLost among its kinds) and
    nothing else. Thread-safe."""

    def __init__(self, address: StoreAddress, engine: Engine, *, server_time: bool | None = None) -> None:
        """`server_time`: whether leases go by the server's clock; None: wherever there is a server."""
        super().__init__(address)
        ours = address.on_server if server_time is None else server_time
        self._engine = engine.execution_options(**{leases.SERVER_TIME: ours})
        self._released_tokens: dict[str, int] = {}
        """By cluster: the token of the last lease that was given back, whether or not the store knows."""

    @classmethod
    def open(
        cls, where: StoreAddress | Path, *, server_time: bool | None = None, moved: bool = False
    ) -> Self:
        """The store at `where`, made (a file with mode 0600, in a directory that git ignores) or migrated
        where needed. Raises StoreMoved for one whose contents went elsewhere, unless `moved`."""
        address = where if isinstance(where, StoreAddress) else StoreAddress(path=where)
        with translate_errors(address):
            create_store_file(address)
        engine = open_engine(address)
        try:
            migrate(engine, address, schema=address.schema, moved=moved)
        except BaseException:
            engine.dispose()
            raise
        return cls(address, engine, server_time=server_time)

    @property
    def path(self) -> Path:
        """The file of a store that is one."""
        if self.address.path is None:
            raise TypeError(f"{self.address} is not a file")
        return self.address.path

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _asking(self, *, one_moment: bool = False) -> Iterator[Ask]:
        connected = read_transaction if one_moment else query_connection
        with connected(self._engine, self.address) as connection:
            yield asking(connection)

    def _write(self, do: Callable[[Connection], T]) -> T:
        return run_transaction(self._engine, self.address, do)

    # Records

    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters that have records."""
        query = select(tables.resources.c.cluster).distinct()
        with query_connection(self._engine, self.address) as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def write(self, lease: Lease, changes: Iterable[StoreChange]) -> None:
        """All of `changes` or nothing. Raises LeaseLost when the lease is no longer the newest."""
        changes = tuple(changes)

        def do(connection: Connection) -> None:
            leases.fence_write(connection, lease, tell=writes.is_watched(changes))
            writes.write_changes(connection, lease, changes)

        self._write(do)

    def holdings(self, cluster: str, since: float, until: float, session: str = "") -> Holdings:
        """What sessions (or one) held between two moments, in one look."""
        with read_transaction(self._engine, self.address) as connection:
            ask = asking(connection)
            if session:
                recorded = read_recorded(ask, cluster, "Session", session)
            else:
                known = self._records[cluster].read(ask, cluster, on_server=self.address.on_server)
                recorded = {name: each for name, each in known.items() if ref_of(name).kind == "Session"}
            return read_holdings(connection, cluster, since, until, recorded, session)

    def clamp_future_times(self, lease: Lease, now: float) -> int:
        """Set times after `now` to now; gives how many rows had one. Raises LeaseLost."""

        def do(connection: Connection) -> int:
            leases.fence_write(connection, lease, tell=True)
            return clock_repair.clamp_future_times(connection, lease.cluster, now)

        return self._write(do)

    def prune(self, lease: Lease) -> None:
        """Keep events, journal and plans within their bounds. Raises LeaseLost."""

        def do(connection: Connection) -> None:
            leases.fence_write(connection, lease)
            usage_and_contact.prune_history(connection, lease.cluster)

        self._write(do)

    # Leases

    def acquire(self, cluster: str, holder: str, ttl: float, now: float) -> Lease:
        """The right to write, for `ttl` seconds from `now`; one that expired, or whose process on this
        machine is gone, is taken over. Raises LeaseHeld while somebody else has it."""
        return self._acquire(cluster, holder, ttl, now)

    def steal(self, cluster: str, holder: str, ttl: float, now: float) -> Lease:
        """Take the lease whoever has it; the old holder's next write fails with LeaseLost."""
        return self._acquire(cluster, holder, ttl, now, steal=True)

    def _acquire(self, cluster: str, holder: str, ttl: float, now: float, *, steal: bool = False) -> Lease:
        def do(connection: Connection) -> Lease:
            raise_if_moved(connection, self.address)
            released = self._released_tokens.get(cluster, 0)
            return leases.acquire(connection, cluster, holder, ttl, now, steal=steal, released_token=released)

        return self._write(do)

    def renew(self, lease: Lease, now: float) -> Lease:
        """The same lease, good for its `ttl` from `now`. Raises LeaseLost."""
        return self._write(lambda connection: leases.renew(connection, lease, now))

    def release(self, lease: Lease) -> None:
        """Give a lease back. One that was taken over meanwhile stays with its new holder; one that cannot be
        given back now does not stand in our own way later."""
        self._released_tokens[lease.cluster] = lease.token
        self._write(lambda connection: leases.release(connection, lease))

    def unlock(
        self, cluster: str, *, actor: str = "", now: float = 0.0, only: Lease | None = None
    ) -> Lease | None:
        """Break the lease; gives the one that was broken, or None when nobody held it. `only`: another one
        than this is left alone."""

        def do(connection: Connection) -> Lease | None:
            broken = leases.unlock(connection, cluster, only)
            if broken is not None:
                entry = Audit("unlock", "", now, f"the lease of {broken.holder} was broken", actor)
                audit.append_entries(connection, cluster, [entry], actor)
            return broken

        return self._write(do)

    def lease(self, cluster: str) -> Lease | None:
        """The lease that is held, expired or not, or None."""
        with query_connection(self._engine, self.address) as connection:
            return leases.current_lease(connection, cluster)

    # Journal and events

    def journal(
        self, cluster: str, apply: str | None = None, actions: Sequence[str] | None = None
    ) -> tuple[JournalEntry, ...]:
        """The journal in order, of one apply or of all; of `actions` alone, where these are given."""
        table = tables.journal
        query = select(table).where(table.c.cluster == cluster).order_by(table.c.seq)
        if apply is not None:
            query = query.where(table.c.apply == apply)
        if actions is not None:
            query = query.where(table.c.action.in_(actions))
        with query_connection(self._engine, self.address) as connection:
            return tuple(rows.journal_entry_from_row(row) for row in connection.execute(query).mappings())

    def journal_times(self, cluster: str, apply: str) -> tuple[float, float] | None:
        """Of the first and the last step of an apply that the journal still has."""
        table = tables.journal
        query = select(func.min(table.c.at), func.max(table.c.at)).where(
            table.c.cluster == cluster, table.c.apply == apply
        )
        with query_connection(self._engine, self.address) as connection:
            first, last = connection.execute(query).one()
        return None if first is None else (first, last)

    def open_intents(self, cluster: str) -> tuple[JournalEntry, ...]:
        """Steps that were about to happen and of which it is not known whether they did."""
        table = tables.open_intents
        query = (
            select(table).where(table.c.cluster == cluster).order_by(table.c.at, *table.primary_key.columns)
        )
        with query_connection(self._engine, self.address) as connection:
            return tuple(rows.open_intent_from_row(row) for row in connection.execute(query).mappings())

    def revisions(self) -> dict[str, int]:
        """By cluster, a number that rises whenever something of it has changed."""
        with query_connection(self._engine, self.address) as connection:
            return leases.revisions(connection)

    def revision(self, cluster: str) -> int:
        """That number of one cluster; 0 before anything was written."""
        with query_connection(self._engine, self.address) as connection:
            return leases.revision(connection, cluster)

    def watch_changes(
        self, since: Mapping[str, int] | None = None, *, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, int]]:
        """Wait for changes, whoever makes them: gives, within a second of each, the new revisions of the
        clusters that are not what they were (in `since`, or when the call began). Read what you want to know
        then: several changes may be told as one. Ends when `stop()` is true, which is asked now and then;
        raises StoreError when the store cannot be asked any more.
        """
        return change_feed.watch_changes(self._engine, self.address, since, stop)

    # What was seen and planned

    def save_hardware(self, cluster: str, node: str, hardware: str, now: float) -> None:
        """Remember a node's probe (JSON text), replacing the last."""
        self._replace_row(tables.hardware, cluster=cluster, node=node, document=hardware, at=now)

    def save_enforcement(self, cluster: str, found: Sequence[EnforcementRecord]) -> None:
        """Remember what parts of GPUs were held to, in place of what was known of a node and means."""
        self._write(lambda connection: nodes.write_enforcement(connection, cluster, found))

    def save_images(self, found: Iterable[ImageFacts], now: float) -> None:
        """Remember what was learned of images, replacing what was known."""
        learned = tuple(found)
        self._write(lambda connection: write_images(connection, learned, now))

    def save_figures(self, cluster: str, found: Sequence[FigureRow]) -> None:
        """Keep what a pass told of its minute, unless that is there already."""
        self._write(lambda connection: write_figures(connection, cluster, found))

    def save_plan(self, cluster: str, digest: str, document: str, now: float) -> None:
        """Keep a plan under its digest."""
        self._replace_row(tables.plans, cluster=cluster, digest=digest, document=document, at=now)

    def saved_plans(self, cluster: str, digest: str = "") -> dict[str, str]:
        """By digest, the newest first, the plans whose digests begin with `digest`."""
        query = select(table := tables.plans).where(table.c.cluster == cluster).order_by(table.c.at.desc())
        with query_connection(self._engine, self.address) as connection:
            found = connection.execute(query).mappings()
            return {row["digest"]: row["document"] for row in found if row["digest"].startswith(digest)}

    def set_meta(self, key: str, value: str) -> None:
        self._write(lambda connection: write_meta(connection, key, value))

    def set_meta_with_lease(self, lease: Lease, key: str, value: str | None, *, tell: str = "") -> None:
        """`set_meta` (None: `forget_meta`) by who holds a lease; who waits for changes of the cluster `tell`
        hears of it. Raises LeaseLost."""

        def do(connection: Connection) -> None:
            leases.fence_write(connection, lease)
            write_meta(connection, key, value)
            if tell:
                leases.bump_revision(connection, tell)

        self._write(do)

    def set_meta_default(self, key: str, value: str) -> str:
        """What is known under `key`; `value`, which is known from now on, when nothing was."""

        def do(connection: Connection) -> str:
            insert_missing(connection, tables.meta, {"key": key, "value": value})
            query = select(tables.meta.c.value).where(tables.meta.c.key == key)
            return str(connection.execute(query).scalar_one())

        return self.meta(key) or self._write(do)

    def record_directive(self, key: str, value: str | None, cluster: str, entry: Audit | None = None) -> None:
        """Remember under `key` what somebody has ordered (None: nothing any more), and that they have, where
        there is an entry; others hear of it."""

        def do(connection: Connection) -> None:
            leases.bump_revision(connection, cluster)
            write_meta(connection, key, value)
            if entry is not None:
                audit.append_entries(connection, cluster, [entry], entry.actor)

        self._write(do)

    def put_rollout_order(self, cluster: str, order: RolloutOrder, entry: Audit) -> None:
        """It holds from now on, in place of an earlier one of the service, and stands in the audit; others
        hear of it."""

        def do(connection: Connection) -> None:
            leases.bump_revision(connection, cluster)
            put_rollout_order(connection, cluster, order)
            audit.append_entries(connection, cluster, [entry], entry.actor)

        self._write(do)

    def remove_rollout_order(self, cluster: str, service: str, entry: Audit) -> bool:
        """It holds no longer, which stands in the audit; False, and nothing is written, when none did."""

        def do(connection: Connection) -> bool:
            leases.bump_revision(connection, cluster)
            removed = remove_rollout_order(connection, cluster, service)
            if removed:
                audit.append_entries(connection, cluster, [entry], entry.actor)
            return removed

        return self._write(do)

    def put_server_report(self, cluster: str, server: str, said: SavedReport) -> None:
        """In place of what the server has said before. Nobody is woken by it."""
        self._write(lambda connection: put_server_report(connection, cluster, server, said))

    def remove_server_report(self, cluster: str, server: str) -> None:
        """The server says nothing any more."""
        self._write(lambda connection: remove_server_report(connection, cluster, server))

    def record_audit(self, cluster: str, entry: Audit) -> None:
        """Write down what somebody has done who wrote nothing else; others hear of it."""

        def do(connection: Connection) -> None:
            leases.bump_revision(connection, cluster)
            audit.append_entries(connection, cluster, [entry], entry.actor)

        self._write(do)

    def forget_meta(self, key: str) -> None:
        self._write(lambda connection: write_meta(connection, key, None))

    def _replace_row(self, table: Table, **values: Any) -> None:
        self._write(lambda connection: replace_row(connection, table, values))

    # Safety copies

    def backup(self, target: Path) -> None:
        """A consistent copy while others go on writing, always one file; `target` appears whole or not at
        all."""
        backup.backup(self._engine, self.address, target)

    @classmethod
    def restore(cls, where: StoreAddress | Path, source: Path, now: float, *, actor: str = "") -> None:
        """Replace the store at `where` by the backup `source`, after checking it. What its audit had is kept.

        Raises StoreError when the backup is not a sound store of bai's, and LeaseHeld while somebody is
        applying.
        """
        address = where if isinstance(where, StoreAddress) else StoreAddress(path=where)
        backup.restore(address, source, now, actor)
