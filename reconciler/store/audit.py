"""The audit: who changed what, from which commit, by which plan. Only ever added to; the tables' triggers see
to that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select

from reconciler.store import rows
from reconciler.store.database.tables import audit

if TYPE_CHECKING:
    from reconciler.values.records import Audit

_CHUNK = 1000


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
