"""What is known of nodes: their hardware as last probed, how far their provisioning has come, and whether
parts of their GPUs hold. It goes with the record of the node: another machine may come under its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert

from reconciler.store.database.tables import contacts, enforcement, hardware, standings
from reconciler.store.database.upsert import replace_row
from reconciler.values.records import EnforcementRecord, Lease, NodeObservation, ProvisionRecord


def write_provision_records(connection: Connection, lease: Lease, found: Iterable[ProvisionRecord]) -> None:
    """Each replaces what was known of its node; of several, the last counts."""
    last = {each.node: each for each in found}
    for node, each in last.items():
        connection.execute(
            delete(standings).where(standings.c.cluster == lease.cluster, standings.c.node == node)
        )
        values = dataclasses.asdict(each)
        connection.execute(insert(standings).values(cluster=lease.cluster, **values))


def forget_nodes(connection: Connection, lease: Lease, names: Iterable[str]) -> None:
    """Whatever is known of these nodes."""
    for name in names:
        for table in (standings, hardware, contacts, enforcement):
            connection.execute(delete(table).where(table.c.cluster == lease.cluster, table.c.node == name))


def write_hardware(connection: Connection, found: Iterable[NodeObservation]) -> None:
    """Each replaces its node's last probe."""
    for each in found:
        mine = (hardware.c.cluster == each.cluster, hardware.c.node == each.node)
        connection.execute(delete(hardware).where(*mine))
        values = {"cluster": each.cluster, "node": each.node, "document": each.hardware, "at": each.at}
        connection.execute(insert(hardware).values(**values))


def write_enforcement(connection: Connection, cluster: str, found: Iterable[EnforcementRecord]) -> None:
    """Each replaces what was seen before of its node and means."""
    for each in found:
        replace_row(connection, enforcement, {"cluster": cluster, **dataclasses.asdict(each)})
