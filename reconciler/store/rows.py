"""Rows ⇄ records."""

from __future__ import annotations

import dataclasses
import functools
import json
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, RowMapping, bindparam, delete, select

from planner.model.types import Placement
from reconciler.store.database.tables import meta, resources
from reconciler.store.database.upsert import replace_row
from reconciler.values.records import (
    Account,
    Audit,
    Event,
    FieldChange,
    Ghost,
    JournalEntry,
    Lease,
    NodeObservation,
    Recorded,
)
from schemas.values.memo import Memo

RecordMemo = Memo[str, Recorded]
"""Identity → the record of its row: what has not changed is not parsed again."""
_RECORDED = select(resources).where(resources.c.cluster == bindparam("cluster"))


def to_json(value: object) -> str:
    """JSON in one normal form: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@functools.cache
def _placement_adapter() -> TypeAdapter[Placement]:
    return TypeAdapter(Placement)


def placement_to_json(placement: Placement | None) -> str | None:
    return None if placement is None else to_json(dataclasses.asdict(placement))


def placement_from_json(text: str | None) -> Placement | None:
    """Raises ValueError for anything that is not a placement."""
    return None if text is None else _placement_adapter().validate_json(text)


def resource_row(record: Recorded) -> dict[str, Any]:
    row = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    row["document"] = to_json(record.document)
    row["placement"] = placement_to_json(record.placement)
    row["kernels"] = to_json(list(record.kernels))
    row["exit_codes"] = to_json(dict(record.exit_codes))
    row["ghosts"] = to_json([dataclasses.asdict(ghost) for ghost in record.ghosts])
    row["account"] = to_json(dataclasses.asdict(record.account)) if record.account else None
    return row


def record_from_row(row: RowMapping) -> Recorded:
    data = dict(row)
    data["document"] = json.loads(row["document"])
    data["placement"] = placement_from_json(row["placement"])
    data["kernels"] = tuple(json.loads(row["kernels"]))
    data["exit_codes"] = json.loads(row["exit_codes"])
    data["ghosts"] = tuple(Ghost(**ghost) for ghost in json.loads(row["ghosts"]))
    data["account"] = Account(**json.loads(row["account"])) if row["account"] else None
    return Recorded(**data)


def read_recorded(
    connection: Connection, cluster: str, kind: str = "", memo: RecordMemo | None = None
) -> dict[str, Recorded]:
    """Everything recorded of one cluster, or of one kind in it, in the order of identities. `memo`: of this
    cluster."""
    memo = Memo() if memo is None else memo
    query = _RECORDED
    if kind:
        query = query.where(resources.c.resource.startswith(f"{kind}/", autoescape=True))
    else:
        memo.begin()
    found = [
        memo.get(row.resource, tuple(row), partial(record_from_row, row._mapping))
        for row in connection.execute(query, {"cluster": cluster})
    ]
    return {record.resource: record for record in sorted(found, key=lambda record: record.resource)}


def event_from_row(row: RowMapping) -> Event:
    return Event(**{key: value for key, value in row.items() if key != "cluster"})


def journal_entry_from_row(row: RowMapping) -> JournalEntry:
    return JournalEntry(**{key: value for key, value in row.items() if key not in ("cluster", "token")})


def open_intent_from_row(row: RowMapping) -> JournalEntry:
    return JournalEntry(**{key: value for key, value in row.items() if key != "cluster"}, state="intent")


def lease_from_row(row: RowMapping) -> Lease:
    return Lease(**{key: value for key, value in row.items() if key not in ("held", "revision")})


def audit_from_row(row: RowMapping) -> Audit:
    data = {key: value for key, value in row.items() if key != "cluster"}
    return Audit(**{**data, "changes": tuple(FieldChange(*each) for each in json.loads(row["changes"]))})


def audit_row(cluster: str, entry: Audit, actor: str) -> dict[str, Any]:
    row = {
        field.name: getattr(entry, field.name) for field in dataclasses.fields(entry) if field.name != "seq"
    }
    changes = to_json([dataclasses.astuple(change) for change in entry.changes])
    return row | {"cluster": cluster, "actor": entry.actor or actor, "changes": changes}


def node_observation_from_row(row: RowMapping) -> NodeObservation:
    return NodeObservation(node=row["node"], cluster=row["cluster"], hardware=row["document"], at=row["at"])


def write_meta(connection: Connection, key: str, value: str | None) -> None:
    """Remember a value under a key; None forgets it."""
    if value is None:
        connection.execute(delete(meta).where(meta.c.key == key))
    else:
        replace_row(connection, meta, {"key": key, "value": value})
