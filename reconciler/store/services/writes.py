"""Rollout orders, one of a service at most, and what servers say of services' requests."""

from __future__ import annotations

import dataclasses

from sqlalchemy import Connection, delete

from reconciler.store.database.tables import rollout_orders as _TABLE
from reconciler.store.database.tables import server_reports as _REPORTS
from reconciler.store.database.upsert import replace_row
from reconciler.values.services.server_report import SavedReport
from reconciler.values.services.state import RolloutOrder


def put_rollout_order(connection: Connection, cluster: str, order: RolloutOrder) -> None:
    """In place of an earlier one of the service."""
    replace_row(connection, _TABLE, {"cluster": cluster, **dataclasses.asdict(order)})


def remove_rollout_order(connection: Connection, cluster: str, service: str) -> bool:
    """False where there is none."""
    mine = delete(_TABLE).where(_TABLE.c.cluster == cluster, _TABLE.c.service == service)
    return connection.execute(mine).rowcount > 0


def put_server_report(connection: Connection, cluster: str, server: str, said: SavedReport) -> None:
    replace_row(
        connection, _REPORTS, {"cluster": cluster, "server": server, "beat": said.beat, "report": said.text}
    )


def remove_server_report(connection: Connection, cluster: str, server: str) -> None:
    mine = delete(_REPORTS).where(_REPORTS.c.cluster == cluster, _REPORTS.c.server == server)
    connection.execute(mine)
