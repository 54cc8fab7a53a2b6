"""Writing changes inside a transaction that has checked the lease: few statements, however many changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Executable, Table, and_, bindparam, delete, insert

from reconciler.store import audit, nodes, rows, usage_and_contact
from reconciler.store.database.tables import events, journal, open_intents, resources
from reconciler.values.records import (
    Audit,
    Charge,
    Contact,
    Event,
    Forget,
    JournalEntry,
    Lease,
    NodeObservation,
    Put,
    Recorded,
    Samples,
    Standing,
    StoreChange,
)
from schemas.problems.errors import StoreError


def _deletion(table: Table) -> Executable:
    """Delete by primary key; the parameters are the columns' names with `_` before."""
    keys = (column == bindparam(f"_{column.name}") for column in table.primary_key.columns)
    return delete(table).where(and_(*keys))


_FORGET, _REMEMBER = _deletion(resources), insert(resources)
_CLOSE, _OPEN = _deletion(open_intents), insert(open_intents)
_LOG, _TELL = insert(journal), insert(events)


_NODE = "Node/"


def others_want_to_hear(changes: Iterable[StoreChange]) -> bool:
    """Whether anything happened, rather than only began or was measured."""
    return any(isinstance(change, Put | Forget | Event | Audit) for change in changes)


def write(connection: Connection, lease: Lease, changes: Iterable[StoreChange]) -> None:
    """All of `changes`; of several for one resource or step, the last counts."""
    records: dict[str, Recorded | None] = {}
    happened: list[Event] = []
    entries: list[JournalEntry] = []
    contacts: list[Contact] = []
    samples: list[Samples] = []
    charges: list[Charge] = []
    standings: list[Standing] = []
    hardware: list[NodeObservation] = []
    audited: list[Audit] = []
    for change in changes:
        match change:
            case Put(record):
                records[record.resource] = record
            case Forget(resource):
                records[resource] = None
            case Event():
                happened.append(change)
            case JournalEntry():
                entries.append(change)
            case Contact():
                contacts.append(change)
            case Samples():
                samples.append(change)
            case Charge():
                charges.append(change)
            case Audit():
                audited.append(change)
            case Standing():
                standings.append(change)
            case NodeObservation():
                hardware.append(change)
    gone = [resource for resource, record in records.items() if record is None]
    nodes.forget(connection, lease, [each.removeprefix(_NODE) for each in gone if each.startswith(_NODE)])
    usage_and_contact.write_contacts(connection, lease, contacts)
    usage_and_contact.write_samples(connection, lease, samples)
    nodes.write_standings(connection, lease, standings)
    nodes.write_hardware(connection, hardware)
    if charges:
        usage_and_contact.write_charges(connection, lease, charges)
    _write_records(connection, lease, records)
    _write_events(connection, lease, happened)
    audit.add(connection, lease.cluster, audited, lease.holder)
    _write_journal(connection, lease, entries)


def _many(connection: Connection, statement: Executable, parameters: list[dict[str, Any]]) -> None:
    if parameters:
        connection.execute(statement, parameters)


def _write_records(connection: Connection, lease: Lease, records: dict[str, Recorded | None]) -> None:
    for record in records.values():
        if record is not None and record.cluster != lease.cluster:
            raise StoreError(
                store=lease.cluster, why=f"{record.resource} belongs to cluster {record.cluster}"
            )
    _many(connection, _FORGET, [{"_cluster": lease.cluster, "_resource": resource} for resource in records])
    _many(
        connection,
        _REMEMBER,
        [rows.resource_row(record) for record in records.values() if record is not None],
    )


def _write_events(connection: Connection, lease: Lease, happened: list[Event]) -> None:
    parameters = [
        {
            "cluster": lease.cluster, "resource": each.resource, "before": each.before, "after": each.after,
            "cause": each.cause, "actor": each.actor or lease.holder, "commit": each.commit, "at": each.at,
        }
        for each in happened
    ]  # fmt: skip
    _many(connection, _TELL, parameters)


def _write_journal(connection: Connection, lease: Lease, entries: list[JournalEntry]) -> None:
    parameters = [
        _step(lease, entry)
        | _effect(entry)
        | {"state": entry.state, "error": entry.error, "token": lease.token}
        for entry in entries
    ]
    _many(connection, _LOG, parameters)
    last = {(entry.apply, entry.action, entry.step): entry for entry in entries}
    steps = [_step(lease, entry) for entry in last.values()]
    _many(connection, _CLOSE, [{f"_{key}": value for key, value in step.items()} for step in steps])
    intents = (entry for entry in last.values() if entry.state == "intent")
    _many(connection, _OPEN, [_step(lease, entry) | _effect(entry) for entry in intents])


def _step(lease: Lease, entry: JournalEntry) -> dict[str, Any]:
    return {"cluster": lease.cluster, "apply": entry.apply, "action": entry.action, "step": entry.step}


def _effect(entry: JournalEntry) -> dict[str, Any]:
    return {"kind": entry.kind, "kernel": entry.kernel, "at": entry.at}
