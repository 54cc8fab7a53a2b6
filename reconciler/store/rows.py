"""Rows ⇄ records."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import RowMapping

from planner.types import Placement
from reconciler.records import Event, JournalEntry, Lease, NodeObservation, Recorded


def to_json(value: object) -> str:
    """JSON in one normal form: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@functools.cache
def _placements() -> TypeAdapter[Placement]:
    return TypeAdapter(Placement)


def placement_to_json(placement: Placement | None) -> str | None:
    return None if placement is None else to_json(dataclasses.asdict(placement))


def placement_from_json(text: str | None) -> Placement | None:
    """Raises ValueError for anything that is not a placement."""
    return None if text is None else _placements().validate_json(text)


def resource_row(record: Recorded) -> dict[str, Any]:
    row = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    row["document"] = to_json(record.document)
    row["placement"] = placement_to_json(record.placement)
    row["kernels"] = to_json(list(record.kernels))
    row["exit_codes"] = to_json(dict(record.exit_codes))
    return row


def recorded(row: RowMapping) -> Recorded:
    data = dict(row)
    data["document"] = json.loads(row["document"])
    data["placement"] = placement_from_json(row["placement"])
    data["kernels"] = tuple(json.loads(row["kernels"]))
    data["exit_codes"] = json.loads(row["exit_codes"])
    return Recorded(**data)


def event(row: RowMapping) -> Event:
    return Event(**{key: value for key, value in row.items() if key != "cluster"})


def journal_entry(row: RowMapping) -> JournalEntry:
    return JournalEntry(**{key: value for key, value in row.items() if key not in ("cluster", "token")})


def open_intent(row: RowMapping) -> JournalEntry:
    return JournalEntry(**{key: value for key, value in row.items() if key != "cluster"}, state="intent")


def lease(row: RowMapping) -> Lease:
    return Lease(**{key: value for key, value in row.items() if key != "held"})


def node_observation(row: RowMapping) -> NodeObservation:
    return NodeObservation(node=row["node"], cluster=row["cluster"], hardware=row["document"], at=row["at"])
