"""Contact with nodes, samples of use, the accounts of users; and how what only grows is kept short."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from functools import lru_cache

from sqlalchemy import BindParameter, Connection, Executable, Table, bindparam, delete, func, insert, select

from reconciler.store.allocations import prune_allocations
from reconciler.store.database.engine import asking
from reconciler.store.database.tables import accounts, contacts, events, journal, plans, samples
from reconciler.store.database.upsert import replace_row
from reconciler.store.reads import read_accounts
from reconciler.store.rows import consumption_to_json
from reconciler.values.records import Balance, Charge, Contact, Lease, SampleChange

MAX_JOURNAL_ROWS = 20_000
"""Newest lines of the journal that are kept; a step is two."""
MAX_EVENTS = 100_000
"""Newest events that are kept of a cluster."""
MAX_PLANS = 100
_PRUNE_SLACK = 1.1
"""How far beyond its bound a table may grow before it is cut: counting costs something."""

_CLUSTER: BindParameter[str] = bindparam("cluster")
_PLANS = select(func.count()).select_from(plans).where(plans.c.cluster == _CLUSTER)


def write_contacts(connection: Connection, lease: Lease, found: Iterable[Contact]) -> None:
    for each in found:
        replace_row(connection, contacts, {"cluster": lease.cluster, **dataclasses.asdict(each)})


def write_samples(connection: Connection, lease: Lease, found: Iterable[SampleChange]) -> None:
    added: dict[tuple[str, float], dict[str, object]] = {}
    for each in found:
        mine = [samples.c.cluster == lease.cluster, samples.c.kernel == each.kernel]
        times = {sample.at for sample in each.add} | set(each.drop or ())
        if each.drop is None:
            connection.execute(delete(samples).where(*mine))
        elif times:
            connection.execute(delete(samples).where(*mine, samples.c.at.in_(sorted(times))))
        for sample in each.add:
            added[each.kernel, sample.at] = {
                "cluster": lease.cluster, "kernel": each.kernel, "at": sample.at,
                "cpu": sample.cpu, "network": sample.network, "gpu": sample.gpu,
                "total": consumption_to_json(sample.total),
            }  # fmt: skip
    if added:
        connection.execute(insert(samples), list(added.values()))


def write_charges(connection: Connection, lease: Lease, charges: Iterable[Charge]) -> None:
    """An account decays when something is added to it."""
    known = read_accounts(asking(connection), lease.cluster)
    changed: dict[str, Balance] = {}
    for charge in charges:
        user = charge.account.user
        changed[user] = known[user] = add_charge(known.get(user), charge)
    for user, balance in changed.items():
        values = {"cluster": lease.cluster, "user": user, **dataclasses.asdict(balance)}
        replace_row(connection, accounts, values)


def add_charge(before: Balance | None, charge: Charge) -> Balance:
    """The balance with a charge added: the integral of the share under the decay over the time it was
    held."""
    half_life = charge.account.half_life
    at = max(charge.ended, before.at if before else charge.ended)
    rate = math.log(2) / half_life
    held = max(0.0, charge.ended - charge.started)
    used = charge.account.share * (1 - math.exp(-rate * held)) / rate * math.exp(-rate * (at - charge.ended))
    return Balance((before.decayed(at) if before else 0.0) + used, at, half_life)


def prune_history(connection: Connection, cluster: str) -> None:
    """Forget the oldest events, lines of the journal, allocations and plans. Open intents are kept
    elsewhere, the audit for good."""
    _keep_newest(connection, journal, cluster, MAX_JOURNAL_ROWS)
    _keep_newest(connection, events, cluster, MAX_EVENTS)
    prune_allocations(connection, cluster)
    mine = plans.c.cluster == cluster
    if (connection.execute(_PLANS, {"cluster": cluster}).scalar() or 0) > MAX_PLANS:
        oldest = select(plans.c.at).where(mine).order_by(plans.c.at.desc()).limit(1).offset(MAX_PLANS - 1)
        first = connection.execute(oldest).scalar()
        connection.execute(delete(plans).where(mine, plans.c.at < first))


def _keep_newest(connection: Connection, table: Table, cluster: str, most: int) -> None:
    """Numbers may have gaps but none comes twice: their range is never less than how many there are."""
    mine, seq = table.c.cluster == cluster, table.c.seq
    first, last = connection.execute(_ends(table), {"cluster": cluster}).one()
    if first is None or last - first < most * _PRUNE_SLACK:
        return
    kept = select(seq).where(mine).order_by(seq.desc()).limit(1).offset(most - 1)
    first = connection.execute(kept).scalar()
    if first is not None:
        connection.execute(delete(table).where(mine, seq < first))


@lru_cache
def _ends(table: Table) -> Executable:
    """Of a cluster's numbers. Each is asked for by itself: so only the ends of the index are looked at."""
    mine = table.c.cluster == _CLUSTER
    lowest, highest = (select(end(table.c.seq)).where(mine).scalar_subquery() for end in (func.min, func.max))
    return select(lowest, highest)
