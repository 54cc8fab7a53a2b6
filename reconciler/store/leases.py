"""Leases with fencing tokens: one writer per cluster.

A lease is good until somebody else takes it: an expired one may still write as long as its token is the
newest, since every write checks the token in its own transaction. Taking it over raises the token, and the
old holder's next write is refused.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import replace

from sqlalchemy import Connection, RowMapping, bindparam, insert, select, update

from reconciler.alive import is_gone, this_process
from reconciler.records import Lease
from reconciler.store import rows
from reconciler.store.tables import leases
from schemas.errors import LeaseHeld, LeaseLost

_ROW = select(leases).where(leases.c.cluster == bindparam("_cluster")).with_for_update()


def current(connection: Connection, cluster: str) -> Lease | None:
    """Who holds the lease (expired or not), or None."""
    row = _row(connection, cluster)
    return rows.lease(row) if row is not None and row["held"] else None


def acquire(
    connection: Connection, cluster: str, holder: str, ttl: float, now: float, *, steal: bool = False
) -> Lease:
    """A lease with a new token. Raises LeaseHeld while another one is good, unless `steal`."""
    row = _row(connection, cluster)
    if row is not None and not steal:
        refuse_while_held(row, now)
    token = 1 if row is None else row["token"] + 1
    lease = Lease(cluster, holder, token, ttl, acquired=now, expires=now + ttl, process=this_process())
    _save(connection, lease, held=True, exists=row is not None)
    return lease


def refuse_while_held(row: RowMapping, now: float) -> None:
    """Raise LeaseHeld when this row of the table is a lease that is good."""
    if not row["held"] or row["expires"] <= now or is_gone(row["process"]):
        return
    raise LeaseHeld(
        holder=row["holder"],
        cluster=row["cluster"],
        until=dt.datetime.fromtimestamp(row["expires"], dt.UTC).isoformat(timespec="seconds"),
        hint="wait, or `bai state unlock` if it is gone for good",
    )


def check(connection: Connection, lease: Lease) -> None:
    """Raise LeaseLost unless this lease's token is the newest and it has not been given back."""
    row = _row(connection, lease.cluster)
    if row is None or not row["held"] or row["token"] != lease.token or row["holder"] != lease.holder:
        raise LeaseLost(cluster=lease.cluster, token=lease.token)


def renew(connection: Connection, lease: Lease, now: float) -> Lease:
    check(connection, lease)
    renewed = replace(lease, expires=now + lease.ttl)
    _save(connection, renewed, held=True, exists=True)
    return renewed


def release(connection: Connection, lease: Lease) -> None:
    """Give it back; a lease that is already lost is left to its new holder."""
    connection.execute(
        update(leases)
        .where(leases.c.cluster == lease.cluster, leases.c.token == lease.token)
        .values(held=False)
    )


def unlock(connection: Connection, cluster: str) -> Lease | None:
    """Take the lease from whoever holds it, leaving it free: gives the lease broken, or None."""
    held = current(connection, cluster)
    if held is not None:
        _save(connection, replace(held, token=held.token + 1), held=False, exists=True)
    return held


def _row(connection: Connection, cluster: str) -> RowMapping | None:
    return connection.execute(_ROW, {"_cluster": cluster}).mappings().first()


def _save(connection: Connection, lease: Lease, *, held: bool, exists: bool) -> None:
    values = {field.name: getattr(lease, field.name) for field in dataclasses.fields(lease)}
    if exists:
        connection.execute(
            update(leases).where(leases.c.cluster == lease.cluster).values(**values, held=held)
        )
    else:
        connection.execute(insert(leases).values(**values, held=held))
