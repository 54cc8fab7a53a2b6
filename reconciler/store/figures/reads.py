"""Figures of some time. Who asks a file needs no more than Python's own driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reconciler.store.database.questions import Ask
from reconciler.values.figures.recorded import FigureRow


def read_figures(
    ask: Ask, cluster: str, length: int, since: float, until: float, group: str | None = None
) -> tuple[FigureRow, ...]:
    """Rows of a length that begin in a time, oldest first; `group`: its own and the cluster's alone."""
    mine = "" if group is None else " AND resource_group IN ('', :group)"
    sql = (
        "SELECT * FROM figures WHERE cluster = :cluster AND length = :length AND at >= :since AND at < :until"
        f"{mine} ORDER BY at, resource_group"
    )
    asked: dict[str, object] = {} if group is None else {"group": group}
    found = ask(sql, cluster=cluster, length=length, since=since, until=until, **asked)
    return tuple(figure_row(row) for row in found)


def figure_row(row: Mapping[str, Any]) -> FigureRow:
    sums: dict[str, float] = json.loads(row["sums"])
    return FigureRow(row["resource_group"], row["length"], row["at"], row["count"], sums)
