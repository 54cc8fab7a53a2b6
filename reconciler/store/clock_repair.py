"""Times that a clock which was ahead has left behind, set to now. What is history stays as it was written."""

from __future__ import annotations

from sqlalchemy import Connection, delete, update

from reconciler.store.database.column_types import Timestamp
from reconciler.store.database.tables import (
    audit,
    events,
    figures,
    journal,
    leases,
    metadata,
    resources,
    samples,
)
from reconciler.store.record_cache import new_version

_SKIPPED_TABLES = {audit, events, figures, journal, leases, samples}
"""History; leases, which come and go; samples and figures, which have no other name than their time."""


def clamp_future_times(connection: Connection, cluster: str, now: float) -> int:
    """Gives how many rows had a time after `now`, in what is kept of the cluster and of images."""
    count = 0
    for table in (samples, figures):
        late = delete(table).where(table.c.cluster == cluster, table.c.at > now)
        count += connection.execute(late).rowcount
    for table in metadata.tables.values():
        for column in table.columns if table not in _SKIPPED_TABLES else ():
            if isinstance(column.type, Timestamp):
                ours = (table.c.cluster == cluster,) if "cluster" in table.c else ()
                rewritten = {table.c.version: new_version()} if table is resources else {}
                change = update(table).where(column > now, *ours).values({column: now, **rewritten})
                count += connection.execute(change).rowcount
    return count
