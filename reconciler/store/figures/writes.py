"""A minute's figures are written once, by whoever comes first, and added to their hour in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqlalchemy import Connection, delete, or_, select

from reconciler.store.database.tables import figures
from reconciler.store.database.upsert import insert_missing, replace_row
from reconciler.store.figures.reads import figure_row
from reconciler.values.figures.recorded import (
    HOUR,
    KEPT_HOURS,
    KEPT_MINUTES,
    MINUTE,
    FigureRow,
    add_rows,
    as_hour,
)

_DIGITS = 3
"""Of fractions that are written."""
_TABLE = figures


def write_figures(connection: Connection, cluster: str, rows: Iterable[FigureRow]) -> None:
    """Minutes that are there already stay as they are. With each new hour the oldest rows are forgotten."""
    now, begins = None, False
    for row in rows:
        if not insert_missing(connection, _TABLE, _values(cluster, row)):
            continue
        hour, known = as_hour(row), _known_hour(connection, cluster, as_hour(row))
        replace_row(connection, _TABLE, _values(cluster, add_rows(known, hour) if known else hour))
        now, begins = row.at, begins or known is None
    if now is not None and begins:
        _forget_old(connection, cluster, now)


def _known_hour(connection: Connection, cluster: str, hour: FigureRow) -> FigureRow | None:
    mine = select(_TABLE).where(
        _TABLE.c.cluster == cluster,
        _TABLE.c.length == HOUR,
        _TABLE.c.at == hour.at,
        _TABLE.c.resource_group == hour.group,
    )
    # On a server another one could add to the same hour meanwhile.
    found = connection.execute(mine.with_for_update()).mappings().first()
    return None if found is None else figure_row(dict(found))


def _forget_old(connection: Connection, cluster: str, now: float) -> None:
    """Also what a clock that was ahead has left behind: it would stand for times to come."""
    old = or_(
        (_TABLE.c.length == MINUTE) & (_TABLE.c.at < now - KEPT_MINUTES),
        (_TABLE.c.length == HOUR) & (_TABLE.c.at < now - KEPT_HOURS),
        _TABLE.c.at > now,
    )
    connection.execute(delete(_TABLE).where(_TABLE.c.cluster == cluster, old))


def _values(cluster: str, row: FigureRow) -> dict[str, object]:
    sums = {key: _short(value) for key, value in sorted(row.sums.items())}
    return {
        "cluster": cluster, "length": row.length, "at": row.at, "resource_group": row.group,
        "count": row.count, "sums": json.dumps(sums, separators=(",", ":")),
    }  # fmt: skip


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, _DIGITS)
