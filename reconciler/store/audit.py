"""The audit: who changed what, from which commit, by which plan. Only ever added to; the tables' triggers see
to that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

from sqlalchemy import Column, ColumnElement, Connection, func, insert, select

from reconciler.store import rows
from reconciler.store.database.tables import audit
from reconciler.values.records import Audit

_CHUNK = 1000


class AuditQuery(TypedDict, total=False):
    """Which entries are asked for; all that is left out or empty counts for all. Times are seconds since the
    epoch."""

    resource: str | None
    actor: str
    """How it begins; `commit` and `plan` likewise."""
    commit: str
    plan: str
    since: float | None
    until: float | None
    """Not itself part of the time asked for, as `since` is."""
    after: int
    """The `seq` of an entry that is known."""
    limit: int | None
    """Only the newest so many."""


def read_entries(connection: Connection, cluster: str, **asked: Unpack[AuditQuery]) -> tuple[Audit, ...]:
    """Entries oldest first."""
    query = select(audit).where(audit.c.cluster == cluster, audit.c.seq > asked.get("after", 0))
    if (resource := asked.get("resource")) is not None:
        query = query.where(audit.c.resource == resource)
    actor, commit, plan = asked.get("actor"), asked.get("commit"), asked.get("plan")
    for column, words in ((audit.c.actor, actor), (audit.c.commit, commit), (audit.c.plan, plan)):
        if words:
            query = query.where(_starts_with(column, words))
    if (since := asked.get("since")) is not None:
        query = query.where(audit.c.at >= since)
    if (until := asked.get("until")) is not None:
        query = query.where(audit.c.at < until)
    found = connection.execute(query.order_by(audit.c.seq.desc()).limit(asked.get("limit"))).mappings()
    return tuple(reversed([rows.audit_from_row(row) for row in found]))


def audited_resources(connection: Connection, cluster: str) -> set[str]:
    """All that it has entries of."""
    named = select(audit.c.resource).where(audit.c.cluster == cluster, audit.c.resource != "").distinct()
    return set(connection.execute(named).scalars())


def append_entries(connection: Connection, cluster: str, entries: Iterable[Audit], actor: str) -> None:
    """Append; `actor` stands where an entry names nobody."""
    values = [rows.audit_row(cluster, entry, actor) for entry in entries]
    if values:
        connection.execute(insert(audit), values)


def append_missing(connection: Connection, found: Iterable[Mapping[str, Any]]) -> None:
    """Append those rows of another store that are not here yet, in their order."""
    here = Counter(_row_content(dict(row)) for row in connection.execute(select(audit)).mappings())
    first = not here
    missing: list[dict[str, Any]] = []
    for row in found:
        content = _row_content(row)
        if here[content]:
            here[content] -= 1
        else:
            missing.append(dict(row) if first else {key: row[key] for key in row if key != "seq"})
    for at in range(0, len(missing), _CHUNK):
        connection.execute(insert(audit), missing[at : at + _CHUNK])


def _row_content(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column.name] for column in audit.columns if column.name != "seq")


def _starts_with(column: Column[str], words: str) -> ColumnElement[bool]:
    # LIKE tells upper from lower case in one engine only.
    return func.substr(column, 1, len(words)) == words
