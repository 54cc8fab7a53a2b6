"""Rows ⇄ records."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from reconciler.values.records import (
    Account,
    Audit,
    Consumption,
    Event,
    FieldChange,
    Ghost,
    JournalEntry,
    Lease,
    NodeObservation,
    Recorded,
)
from reconciler.values.services.state import NO_STATE, state_from_json, state_to_json

if TYPE_CHECKING:
    from planner.model.types import Placement
    from reconciler.store.database.questions import Row


def to_json(value: object) -> str:
    """JSON in one normal form: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@functools.cache
def _placement_adapter() -> TypeAdapter[Placement]:
    from planner.model.types import Placement  # Who reads no placement does without what makes one.

    return TypeAdapter(Placement)


def placement_to_json(placement: Placement | None) -> str | None:
    return None if placement is None else to_json(dataclasses.asdict(placement))


def placement_from_json(text: str | None) -> Placement | None:
    """Raises ValueError for anything that is not a placement."""
    return None if text is None else _placement_adapter().validate_json(text)


def resource_row(record: Recorded) -> dict[str, Any]:
    row = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    del row["service"]
    row["document"] = to_json(record.document)
    row["placement"] = placement_to_json(record.placement)
    row["kernels"] = to_json(list(record.kernels))
    row["exit_codes"] = to_json(dict(record.exit_codes))
    row["ghosts"] = to_json([dataclasses.asdict(ghost) for ghost in record.ghosts])
    row["account"] = to_json(dataclasses.asdict(record.account)) if record.account else None
    row["service"] = None if record.service == NO_STATE else to_json(state_to_json(record.service))
    row["app_ports"] = to_json(dict(record.app_ports)) if record.app_ports else None
    return row


def record_from_row(row: Row) -> Recorded:
    data = dict(row)
    # Of most sessions nothing has ended and nothing was left behind.
    codes, ghosts = row["exit_codes"], row["ghosts"]
    data["document"] = json.loads(row["document"])
    data["placement"] = placement_from_json(row["placement"])
    data["kernels"] = tuple(json.loads(row["kernels"]))
    data["exit_codes"] = {} if codes == "{}" else json.loads(codes)
    data["ghosts"] = () if ghosts == "[]" else tuple(Ghost(**ghost) for ghost in json.loads(ghosts))
    data["account"] = Account(**json.loads(row["account"])) if row["account"] else None
    data["service"] = state_from_json(json.loads(row["service"])) if row["service"] else NO_STATE
    data["app_ports"] = json.loads(row["app_ports"]) if row["app_ports"] else {}
    data["protected"] = bool(row["protected"])
    del data["version"]
    return Recorded(**data)


def event_from_row(row: Row) -> Event:
    return Event(**{key: value for key, value in row.items() if key != "cluster"})


def journal_entry_from_row(row: Row) -> JournalEntry:
    return JournalEntry(**{key: value for key, value in row.items() if key not in ("cluster", "token")})


def open_intent_from_row(row: Row) -> JournalEntry:
    return JournalEntry(**{key: value for key, value in row.items() if key != "cluster"}, state="intent")


def lease_from_row(row: Row) -> Lease:
    return Lease(**{key: value for key, value in row.items() if key not in ("held", "revision")})


def audit_from_row(row: Row) -> Audit:
    data = {key: value for key, value in row.items() if key != "cluster"}
    return Audit(**{**data, "changes": tuple(FieldChange(*each) for each in json.loads(row["changes"]))})


def audit_row(cluster: str, entry: Audit, actor: str) -> dict[str, Any]:
    row = {
        field.name: getattr(entry, field.name) for field in dataclasses.fields(entry) if field.name != "seq"
    }
    changes = to_json([dataclasses.astuple(change) for change in entry.changes])
    return row | {"cluster": cluster, "actor": entry.actor or actor, "changes": changes}


def node_observation_from_row(row: Row) -> NodeObservation:
    return NodeObservation(node=row["node"], cluster=row["cluster"], hardware=row["document"], at=row["at"])


def consumption_to_json(used: Consumption) -> str:
    said = {key: value for key, value in dataclasses.asdict(used).items() if value}
    return to_json(said)


def consumption_from_json(text: str) -> Consumption:
    return Consumption(**json.loads(text))
