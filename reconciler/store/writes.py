"""Writing changes inside a transaction that has checked the lease: few statements, however many changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Executable, Table, and_, bindparam, delete, insert

from reconciler.store import allocations, audit, nodes, rows, usage_and_contact
from reconciler.store.database.tables import events, journal, open_intents, resources
from reconciler.store.record_cache import new_version
from reconciler.values.records import (
    Allocation,
    Audit,
    Charge,
    Contact,
    Event,
    ForgetRecord,
    JournalEntry,
    Lease,
    NodeObservation,
    ProvisionRecord,
    PutRecord,
    Recorded,
    SampleChange,
    StoreChange,
)
from schemas.problems.errors.store import StoreError


def _delete_by_key(table: Table) -> Executable:
    """Delete by primary key; the parameters are the columns' names with `_` before."""
    keys = (column == bindparam(f"_{column.name}") for column in table.primary_key.columns)
    return delete(table).where(and_(*keys))


_DELETE_RECORD, _INSERT_RECORD = _delete_by_key(resources), insert(resources)
_DELETE_INTENT, _INSERT_INTENT = _delete_by_key(open_intents), insert(open_intents)
_INSERT_JOURNAL, _INSERT_EVENT = insert(journal), insert(events)


_NODE = "Node/"


def is_watched(changes: Iterable[StoreChange]) -> bool:
    """Whether anything happened, rather than only began or was measured."""
    return any(isinstance(change, PutRecord | ForgetRecord | Event | Audit) for change in changes)


def write_changes(connection: Connection, lease: Lease, changes: Iterable[StoreChange]) -> None:
    """All of `changes`; of several for one resource or step, the last counts."""
    records: dict[str, Recorded | None] = {}
    happened: list[Event] = []
    entries: list[JournalEntry] = []
    contacts: list[Contact] = []
    samples: list[SampleChange] = []
    charges: list[Charge] = []
    held: list[Allocation] = []
    provision_records: list[ProvisionRecord] = []
    hardware: list[NodeObservation] = []
    audited: list[Audit] = []
    for change in changes:
        match change:
            case PutRecord(record):
                records[record.resource] = record
            case ForgetRecord(resource):
                records[resource] = None
            case Event():
                happened.append(change)
            case JournalEntry():
                entries.append(change)
            case Contact():
                contacts.append(change)
            case SampleChange():
                samples.append(change)
            case Charge():
                charges.append(change)
            case Allocation():
                held.append(change)
            case Audit():
                audited.append(change)
            case ProvisionRecord():
                provision_records.append(change)
            case NodeObservation():
                hardware.append(change)
    gone = [resource for resource, record in records.items() if record is None]
    nodes.forget_nodes(
        connection, lease, [each.removeprefix(_NODE) for each in gone if each.startswith(_NODE)]
    )
    usage_and_contact.write_contacts(connection, lease, contacts)
    # Before the samples of what has ended go.
    allocations.write_allocations(connection, lease, held)
    usage_and_contact.write_samples(connection, lease, samples)
    nodes.write_provision_records(connection, lease, provision_records)
    nodes.write_hardware(connection, hardware)
    if charges:
        usage_and_contact.write_charges(connection, lease, charges)
    _write_records(connection, lease, records)
    _write_events(connection, lease, happened)
    audit.append_entries(connection, lease.cluster, audited, lease.holder)
    _write_journal(connection, lease, entries)


def _execute_many(connection: Connection, statement: Executable, parameters: list[dict[str, Any]]) -> None:
    if parameters:
        connection.execute(statement, parameters)


def _write_records(connection: Connection, lease: Lease, records: dict[str, Recorded | None]) -> None:
    for record in records.values():
        if record is not None and record.cluster != lease.cluster:
            raise StoreError(
                store=lease.cluster, why=f"{record.resource} belongs to cluster {record.cluster}"
            )
    written = {"version": new_version()}
    _execute_many(
        connection,
        _DELETE_RECORD,
        [{"_cluster": lease.cluster, "_resource": resource} for resource in records],
    )
    _execute_many(
        connection,
        _INSERT_RECORD,
        [rows.resource_row(record) | written for record in records.values() if record is not None],
    )


def _write_events(connection: Connection, lease: Lease, happened: list[Event]) -> None:
    parameters = [
        {
            "cluster": lease.cluster, "resource": each.resource, "before": each.before, "after": each.after,
            "cause": each.cause, "actor": each.actor or lease.holder, "commit": each.commit, "at": each.at,
            "result": each.result,
        }
        for each in happened
    ]  # fmt: skip
    _execute_many(connection, _INSERT_EVENT, parameters)


def _write_journal(connection: Connection, lease: Lease, entries: list[JournalEntry]) -> None:
    parameters = [
        _step_columns(lease, entry)
        | _effect_columns(entry)
        | {"state": entry.state, "error": entry.error, "token": lease.token}
        for entry in entries
    ]
    _execute_many(connection, _INSERT_JOURNAL, parameters)
    last = {(entry.apply, entry.action, entry.step): entry for entry in entries}
    steps = [_step_columns(lease, entry) for entry in last.values()]
    _execute_many(
        connection, _DELETE_INTENT, [{f"_{key}": value for key, value in step.items()} for step in steps]
    )
    intents = (entry for entry in last.values() if entry.state == "intent")
    _execute_many(
        connection,
        _INSERT_INTENT,
        [_step_columns(lease, entry) | _effect_columns(entry) for entry in intents],
    )


def _step_columns(lease: Lease, entry: JournalEntry) -> dict[str, Any]:
    return {"cluster": lease.cluster, "apply": entry.apply, "action": entry.action, "step": entry.step}


def _effect_columns(entry: JournalEntry) -> dict[str, Any]:
    return {"kind": entry.kind, "kernel": entry.kernel, "at": entry.at}
