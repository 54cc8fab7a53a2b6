"""Writing changes inside a transaction that has already checked the lease."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, update

from reconciler.records import Event, Forget, JournalEntry, Lease, Put, Recorded, StoreChange
from reconciler.store import rows
from reconciler.store.tables import events, journal, open_intents, resources
from schemas.errors import StoreError


def write(connection: Connection, lease: Lease, changes: Iterable[StoreChange]) -> None:
    """All of `changes`, in their order."""
    for change in changes:
        match change:
            case Put(record):
                _put(connection, lease, record)
            case Forget(resource):
                connection.execute(delete(resources).where(_is(lease.cluster, resource)))
            case Event():
                _event(connection, lease, change)
            case JournalEntry():
                _journal(connection, lease, change)


def _put(connection: Connection, lease: Lease, record: Recorded) -> None:
    if record.cluster != lease.cluster:
        raise StoreError(store=lease.cluster, why=f"{record.resource} belongs to cluster {record.cluster}")
    row = rows.resource_row(record)
    changed = connection.execute(update(resources).where(_is(record.cluster, record.resource)).values(**row))
    if changed.rowcount == 0:
        connection.execute(insert(resources).values(**row))


def _is(cluster: str, resource: str) -> ColumnElement[bool]:
    return and_(resources.c.cluster == cluster, resources.c.resource == resource)


def _event(connection: Connection, lease: Lease, event: Event) -> None:
    values = {
        "resource": event.resource, "before": event.before, "after": event.after, "cause": event.cause,
        "actor": event.actor or lease.holder, "commit": event.commit, "at": event.at,
    }  # fmt: skip
    connection.execute(insert(events).values(cluster=lease.cluster, **values))


def _journal(connection: Connection, lease: Lease, entry: JournalEntry) -> None:
    step = {"cluster": lease.cluster, "apply": entry.apply, "action": entry.action, "step": entry.step}
    values = {
        "kind": entry.kind,
        "kernel": entry.kernel,
        "state": entry.state,
        "at": entry.at,
        "error": entry.error,
    }
    added = connection.execute(insert(journal).values(**step, **values, token=lease.token))
    seq = added.inserted_primary_key
    same = and_(*(open_intents.c[name] == value for name, value in step.items()))
    connection.execute(delete(open_intents).where(same))
    if entry.state == "intent" and seq is not None:
        connection.execute(insert(open_intents).values(**step, seq=seq[0]))
