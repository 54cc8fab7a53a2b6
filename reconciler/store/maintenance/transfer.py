"""All rows of one store into another, whatever the engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, delete, func, insert, select, text, update

from reconciler.store import audit, leases
from reconciler.store.database import tables
from reconciler.store.database.engine import is_server
from reconciler.store.database.revision import MOVED_KEY
from reconciler.store.database.upsert import insert_missing

_CHUNK = 1000
_SEQUENCED_TABLES = (tables.journal, tables.events, tables.allocations, tables.audit)
_COPIED_TABLES = tuple(table for table in tables.metadata.sorted_tables if table is not tables.audit)


@dataclass(frozen=True)
class PreservedRows:
    """What of a store outlives the replacement of its contents."""

    leases: tuple[RowMapping, ...] = ()
    audit: tuple[RowMapping, ...] = ()

    @classmethod
    def of(cls, connection: Connection, now: float) -> PreservedRows:
        """Raises LeaseHeld while somebody is applying."""
        held = tuple(connection.execute(select(tables.leases)).mappings())
        at = leases.lease_clock(connection, now)
        for row in held:
            leases.refuse_while_held(row, at)
        entries = connection.execute(select(tables.audit).order_by(tables.audit.c.seq)).mappings()
        return cls(held, tuple(entries))


def lock_tables(connection: Connection) -> None:
    """Nobody else writes anything until this transaction ends; reading goes on."""
    if is_server(connection):
        # Writers begin with the leases: else each could wait for what the other one has.
        ordered = sorted(_COPIED_TABLES, key=lambda table: table is not tables.leases)
        names = ", ".join(f'"{table.name}"' for table in ordered)
        connection.execute(text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))


def replace_contents(target: Connection, source: Connection) -> None:
    """Replace what `target` holds by what `source` holds. The audit is only added to."""
    for table in _COPIED_TABLES:
        target.execute(delete(table))
    for table in _COPIED_TABLES:
        for rows in _read_chunks(source, table):
            target.execute(insert(table), rows)
    audit.append_missing(target, (row for rows in _read_chunks(source, tables.audit) for row in rows))
    _advance_sequences(target)


def restore_preserved(connection: Connection, kept: PreservedRows) -> None:
    """No token comes twice: whoever held a lease of the contents that are replaced, or of those that came,
    stays refused. Nothing that was in the audit is lost."""
    table = tables.leases
    before = {row["cluster"]: row for row in kept.leases}
    for cluster, row in before.items():
        insert_missing(connection, table, {**row, "cluster": cluster})
    for row in list(connection.execute(select(table)).mappings()):
        old = before.get(row["cluster"], row)
        numbers = {name: max(row[name], old[name]) + 1 for name in ("token", "revision")}
        mine = table.c.cluster == row["cluster"]
        connection.execute(update(table).where(mine).values(**numbers, held=False))
    audit.append_missing(connection, [dict(row) for row in kept.audit])
    _advance_sequences(connection)


def _read_chunks(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """Rows in the order of their keys, never all at once."""
    query = select(table).order_by(*table.primary_key.columns)
    found = connection.execute(query, execution_options={"yield_per": _CHUNK})
    for rows in found.mappings().partitions(_CHUNK):
        yield [dict(row) for row in rows]


def _advance_sequences(connection: Connection) -> None:
    """The server counts on from the numbers that came."""
    if not is_server(connection):
        return
    for table in _SEQUENCED_TABLES:
        newest = connection.execute(select(func.max(table.c.seq))).scalar()
        if newest is not None:
            sequence = func.pg_get_serial_sequence(table.name, "seq")
            connection.execute(select(func.setval(sequence, newest)))


def written_clusters(connection: Connection) -> list[str]:
    """All that were ever written to; leaders' leases stand under names that are no cluster's."""
    name = tables.leases.c.cluster
    return [each for each in connection.execute(select(name).order_by(name)).scalars() if "/" not in each]


def clear_move_mark(connection: Connection) -> None:
    """These contents are here, wherever the store that they come from went later."""
    connection.execute(delete(tables.meta).where(tables.meta.c.key == MOVED_KEY))
