"""What sessions held from when to when: written when it ends, read for reports, kept within a bound."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select

from reconciler.store.database.tables import allocations, audit, meta, samples
from reconciler.store.meta import write_meta
from reconciler.store.rows import consumption_from_json, consumption_to_json
from reconciler.values.records import Allocation, Consumption, Holdings, Lease, Recorded
from reconciler.values.usage.consumption import add_consumptions

MAX_ALLOCATIONS = 1_000_000
"""Newest allocations that are kept of a cluster."""
_PRUNE_SLACK = 1.1
_LOSSES = ("rebuild", "restore")
"""What the audit calls the replacement of a store by one that may know less."""
_TABLE = allocations


def write_allocations(connection: Connection, lease: Lease, found: Iterable[Allocation]) -> None:
    """Append; each begins where the one before of the same start ended, so that no time counts twice."""
    for each in found:
        mine = (_TABLE.c.cluster == lease.cluster, _TABLE.c.session == each.session)
        ended = select(func.max(_TABLE.c.ended)).where(*mine, _TABLE.c.began == each.began)
        before = connection.execute(ended).scalar()
        started = each.started if before is None else max(each.started, before)
        used = add_consumptions(read_totals(connection, lease.cluster, each.kernels).values())
        row = _allocation_row(dataclasses.replace(each, started=started, used=used))
        connection.execute(insert(_TABLE), {"cluster": lease.cluster, **row})


def read_totals(connection: Connection, cluster: str, kernels: Sequence[str]) -> dict[str, Consumption]:
    """By kernel, what its last sample says that it has used in all."""
    if not kernels:
        return {}
    mine = (samples.c.cluster == cluster, samples.c.kernel.in_(kernels))
    query = select(samples.c.kernel, samples.c.total).where(*mine).order_by(samples.c.at)
    return {row.kernel: consumption_from_json(row.total) for row in connection.execute(query)}


def read_holdings(
    connection: Connection,
    cluster: str,
    since: float,
    until: float,
    recorded: Mapping[str, Recorded],
    session: str = "",
) -> Holdings:
    """What sessions (or one), which are `recorded` now, held between two moments. What is over is in the
    order it was written in."""
    query = select(_TABLE).where(
        _TABLE.c.cluster == cluster, _TABLE.c.ended > since, _TABLE.c.started < until
    )
    if session:
        query = query.where(_TABLE.c.session == session)
    found = connection.execute(query.order_by(_TABLE.c.seq)).mappings()
    return Holdings(
        tuple(_allocation_from_row(row) for row in found),
        recorded,
        known_since(connection, cluster),
    )


def known_since(connection: Connection, cluster: str) -> float | None:
    """From when on all allocations are known; None: always. Before, those that had ended may be missing."""
    key = meta.c.key == _since_key(cluster)
    said = connection.execute(select(meta.c.value).where(key)).scalar()
    lost = select(func.max(audit.c.at)).where(audit.c.cluster == cluster, audit.c.verb.in_(_LOSSES))
    replaced = connection.execute(lost).scalar()
    times = [float(said)] if said is not None else []
    return max([*times, *([] if replaced is None else [replaced])], default=None)


def prune_allocations(connection: Connection, cluster: str) -> None:
    """Forget the oldest, and remember from when on nothing was forgotten."""
    mine = _TABLE.c.cluster == cluster
    first, last = (
        connection.execute(select(end(_TABLE.c.seq)).where(mine)).scalar() for end in (func.min, func.max)
    )
    if first is None or last is None or last - first < MAX_ALLOCATIONS * _PRUNE_SLACK:
        return
    newest = select(_TABLE.c.seq).where(mine).order_by(_TABLE.c.seq.desc())
    kept = connection.execute(newest.limit(1).offset(MAX_ALLOCATIONS - 1)).scalar()
    if kept is None:
        return
    old = (mine, _TABLE.c.seq < kept)
    lost = connection.execute(select(func.max(_TABLE.c.ended)).where(*old)).scalar()
    since = max(filter(None, (lost, known_since(connection, cluster))), default=None)
    connection.execute(delete(_TABLE).where(*old))
    if since is not None:
        write_meta(connection, _since_key(cluster), repr(since))


def _since_key(cluster: str) -> str:
    return f"allocations-since/{cluster}"


def _allocation_row(each: Allocation) -> dict[str, Any]:
    row = {field.name: getattr(each, field.name) for field in dataclasses.fields(each)}
    del row["kernels"]
    devices = json.dumps(dict(each.devices), sort_keys=True, separators=(",", ":"))
    return row | {"devices": devices, "used": consumption_to_json(each.used)}


def _allocation_from_row(row: RowMapping) -> Allocation:
    data = {key: value for key, value in row.items() if key not in ("seq", "cluster")}
    devices, used = json.loads(row["devices"]), consumption_from_json(row["used"])
    return Allocation(**{**data, "devices": devices, "used": used})
