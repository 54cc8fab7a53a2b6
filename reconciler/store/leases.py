"""Leases with fencing tokens: one writer per cluster.

A lease is good until somebody else takes it: an expired one may still write as long as its token is the
newest, since every write checks the token in its own transaction. Taking it over raises the token, and the
old holder's next write is refused.

When a lease is over is decided by one clock: the server's, where there is one, for those of its clients
differ; else that of the caller. Who holds a lease reads its times on his own clock.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Executable, RowMapping, and_, bindparam, func, select, update

from reconciler.store import rows
from reconciler.store.database.process_identity import current_process_identity, is_process_gone
from reconciler.store.database.tables import leases
from reconciler.store.database.upsert import insert_missing
from reconciler.values.records import Lease
from schemas.problems.errors.store import LeaseHeld, LeaseLost

SERVER_TIME = "bai_server_time"
"""Execution option of connections whose leases go by the server's clock."""
_ROW = select(leases).where(leases.c.cluster == bindparam("_cluster"))
_LOCKED_ROW = _ROW.with_for_update()
_MINE = and_(
    leases.c.cluster == bindparam("_cluster"),
    leases.c.token == bindparam("_token"),
    leases.c.holder == bindparam("_holder"),
    leases.c.held,
)
_CHECK = update(leases).where(_MINE).values(revision=leases.c.revision + bindparam("_step"))
_RENEW = update(leases).where(_MINE).values(ttl=bindparam("_ttl"), expires=bindparam("_expires"))
_GIVE_BACK = update(leases).where(_MINE).values(held=False, revision=leases.c.revision + 1)


def current_lease(connection: Connection, cluster: str) -> Lease | None:
    """Who holds the lease (expired or not), or None."""
    row = connection.execute(_ROW, {"_cluster": cluster}).mappings().first()
    return rows.lease_from_row(row) if row is not None and row["held"] else None


def revisions(connection: Connection) -> dict[str, int]:
    """How often each cluster's records have changed, so to speak: a number that only rises."""
    found = connection.execute(select(leases.c.cluster, leases.c.revision))
    return {cluster: revision for cluster, revision in found if revision and "/" not in cluster}


def revision(connection: Connection, cluster: str) -> int:
    """The same number of one cluster; 0 before anything was written."""
    row = connection.execute(_ROW, {"_cluster": cluster}).mappings().first()
    return int(row["revision"]) if row is not None else 0


def bump_revision(connection: Connection, cluster: str) -> None:
    """Let others hear that something of the cluster has changed, whoever holds the lease."""
    _lock_row(connection, cluster)
    _update_row(connection, cluster)


def acquire(
    connection: Connection,
    cluster: str,
    holder: str,
    ttl: float,
    now: float,
    *,
    steal: bool = False,
    released_token: int = 0,
) -> Lease:
    """A lease with a new token. Raises LeaseHeld while another one is good, unless `steal`, or its token is
    `released_token`."""
    row = _lock_row(connection, cluster)
    at = lease_clock(connection, now)
    if not steal and row["token"] != released_token:
        refuse_while_held(row, at)
    token = row["token"] + 1
    lease = Lease(
        cluster, holder, token, ttl, acquired=now, expires=now + ttl, process=current_process_identity()
    )
    _update_row(
        connection, cluster, holder=holder, token=token, ttl=ttl, acquired=at, expires=at + ttl,
        process=lease.process, held=True,
    )  # fmt: skip
    return lease


def refuse_while_held(row: RowMapping, now: float) -> None:
    """Raise LeaseHeld when this row of the table is a lease that is good."""
    if not row["held"] or row["expires"] <= now or is_process_gone(row["process"]):
        return
    raise LeaseHeld(
        holder=row["holder"],
        cluster=row["cluster"],
        until=dt.datetime.fromtimestamp(row["expires"], dt.UTC).isoformat(timespec="seconds"),
        hint="wait, or `bai state unlock` if it is gone for good",
    )


def fence_write(connection: Connection, lease: Lease, *, tell: bool = False) -> None:
    """Keep everybody else from writing until this transaction ends, and raise the cluster's revision when
    others are to be told.

    Raises LeaseLost unless this lease's token is the newest and it has not been given back.
    """
    if connection.execute(_CHECK, {**_lease_parameters(lease), "_step": int(tell)}).rowcount != 1:
        raise LeaseLost(cluster=lease.cluster, token=lease.token)


def renew(connection: Connection, lease: Lease, now: float) -> Lease:
    """Raises LeaseLost."""
    expires = lease_clock(connection, now) + lease.ttl
    if (
        connection.execute(
            _RENEW, {**_lease_parameters(lease), "_ttl": lease.ttl, "_expires": expires}
        ).rowcount
        != 1
    ):
        raise LeaseLost(cluster=lease.cluster, token=lease.token)
    return replace(lease, expires=now + lease.ttl)


def release(connection: Connection, lease: Lease) -> None:
    """Give it back; a lease that is already lost is left to its new holder."""
    connection.execute(_GIVE_BACK, _lease_parameters(lease))


def unlock(connection: Connection, cluster: str, only: Lease | None = None) -> Lease | None:
    """Take the lease from whoever holds it (`only`: where it is still this one), leaving it free: gives the
    lease broken, or None."""
    row = _lock_row(connection, cluster)
    if not row["held"] or (only is not None and row["token"] != only.token):
        return None
    _update_row(connection, cluster, token=row["token"] + 1, held=False)
    return rows.lease_from_row(row)


def lease_clock(connection: Connection, now: float) -> float:
    """What time it is for leases: the server's clock where that counts, else `now`."""
    if not connection.get_execution_options().get(SERVER_TIME):
        return now
    # Not the transaction's time, which stands still while it waits for others.
    return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())


def _lock_row(connection: Connection, cluster: str) -> RowMapping:
    """The cluster's row, made if need be; nobody else changes it until this transaction ends."""
    insert_missing(
        connection,
        leases,
        {
            "cluster": cluster, "token": 0, "holder": "", "held": False, "ttl": 0.0, "acquired": 0.0,
            "expires": 0.0, "process": "", "revision": 0,
        },
    )  # fmt: skip
    return connection.execute(_LOCKED_ROW, {"_cluster": cluster}).mappings().one()


def _update_row(connection: Connection, cluster: str, **values: Any) -> None:
    connection.execute(
        _update_of(*values), {f"_{name}": value for name, value in values.items()} | {"_cluster": cluster}
    )


@lru_cache
def _update_of(*names: str) -> Executable:
    changed: dict[str, object] = {name: bindparam(f"_{name}") for name in names}
    statement = update(leases).where(leases.c.cluster == bindparam("_cluster"))
    return statement.values(**changed, revision=leases.c.revision + 1)


def _lease_parameters(lease: Lease) -> dict[str, object]:
    return {"_cluster": lease.cluster, "_token": lease.token, "_holder": lease.holder}
