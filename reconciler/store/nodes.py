"""What is known of nodes: their hardware as last probed, how far their provisioning has come, and whether
parts of their GPUs hold. It goes with the record of the node: another machine may come under its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, delete, insert, select

from reconciler.store import rows
from reconciler.store.database.tables import contacts, enforcement, hardware, standings
from reconciler.store.database.upsert import replace_row
from reconciler.values.records import EnforcementRecord, Lease, NodeObservation, ProvisionRecord

_RECORDS = select(standings).where(standings.c.cluster == bindparam("cluster")).order_by(standings.c.node)


def write_provision_records(connection: Connection, lease: Lease, found: Iterable[ProvisionRecord]) -> None:
    """Each replaces what was known of its node; of several, the last counts."""
    last = {each.node: each for each in found}
    for node, each in last.items():
        connection.execute(
            delete(standings).where(standings.c.cluster == lease.cluster, standings.c.node == node)
        )
        values = dataclasses.asdict(each)
        connection.execute(insert(standings).values(cluster=lease.cluster, **values))


def read_provision_records(connection: Connection, cluster: str) -> dict[str, ProvisionRecord]:
    """By node."""
    found = connection.execute(_RECORDS, {"cluster": cluster}).mappings()
    return {row["node"]: ProvisionRecord(**{k: v for k, v in row.items() if k != "cluster"}) for row in found}


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


def read_hardware(connection: Connection, cluster: str) -> dict[str, NodeObservation]:
    """By node."""
    query = select(hardware).where(hardware.c.cluster == cluster).order_by(hardware.c.node)
    return {row["node"]: rows.node_observation_from_row(row) for row in connection.execute(query).mappings()}


def write_enforcement(connection: Connection, cluster: str, found: Iterable[EnforcementRecord]) -> None:
    """Each replaces what was seen before of its node and means."""
    for each in found:
        replace_row(connection, enforcement, {"cluster": cluster, **dataclasses.asdict(each)})


def read_enforcement(connection: Connection, cluster: str) -> dict[tuple[str, str], EnforcementRecord]:
    """By node and means."""
    found = connection.execute(select(enforcement).where(enforcement.c.cluster == cluster)).mappings()
    records = (EnforcementRecord(**{k: v for k, v in row.items() if k != "cluster"}) for row in found)
    return {(each.node, each.means): each for each in records}
