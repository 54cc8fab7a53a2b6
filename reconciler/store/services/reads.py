"""Rollout orders, and what servers say of services' requests. Who asks a file needs no more than Python's own
driver."""

from __future__ import annotations

from reconciler.store.database.questions import Ask
from reconciler.values.services.server_report import SavedReport
from reconciler.values.services.state import RolloutOrder


def read_rollout_orders(ask: Ask, cluster: str) -> dict[str, RolloutOrder]:
    """By the identities of services, in their order."""
    found = ask("SELECT * FROM rollout_orders WHERE cluster = :cluster ORDER BY service", cluster=cluster)
    orders = (RolloutOrder(**{k: v for k, v in row.items() if k != "cluster"}) for row in found)
    return {each.service: each for each in orders}


def read_server_reports(ask: Ask, cluster: str) -> dict[str, SavedReport]:
    """By server."""
    found = ask("SELECT server, beat, report FROM server_reports WHERE cluster = :cluster", cluster=cluster)
    return {row["server"]: SavedReport(row["beat"], row["report"]) for row in found}
