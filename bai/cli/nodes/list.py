"""The list of nodes, for `bai nodes list` and `bai get nodes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.cli.formats import ListFormat
from bai.settings import Settings
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.render.nodes.rows import NodeRow
    from reconciler.values.state import Actual, Desired


def node_rows(desired: Desired, actual: Actual) -> list[NodeRow]:
    """Every node of the cluster, by name, whether or not its hardware is known."""
    from bai.cli.nodes.node_infos import node_infos
    from bai.render.nodes.rows import NodeRow, node_row, running_placements
    from reconciler.plan.nodes.profile_status import profile_status

    infos, held = node_infos(desired, actual), running_placements(actual)
    rows = []
    for node in desired.repository.nodes_of(desired.cluster):
        name, address = node.metadata.name, node.spec.address or node.metadata.name
        if name in infos:
            rows.append(node_row(infos[name], held, address, profile_status(actual, name)))
        else:
            group = desired.repository.group_of_node(node) or ""
            how = profile_status(actual, name)
            state = "unprovisioned" if how is not None and how.unready else node.spec.state
            rows.append(NodeRow(name=name, group=group, state=state, address=address, profile_status=how))
    return sorted(rows, key=lambda row: row.name)


def list_nodes(
    settings: Settings, desired: Desired, actual: Actual, name: str | None, format: ListFormat
) -> None:
    """Print the nodes, or the one named."""
    from bai.cli.output import print_json, print_table
    from bai.cli.resource_names import resolve_name
    from bai.render.nodes.rows import node_cells, node_columns, node_json

    rows = node_rows(desired, actual)
    if name is not None:
        wanted = ref_of(resolve_name(name, [identity_of("Node", row.name) for row in rows], "Node")).name
        rows = [row for row in rows if row.name == wanted]
    if format is ListFormat.json:
        print_json("bai.nodes/v1", nodes=[node_json(row) for row in rows])
        return
    wide, profiles = format is ListFormat.wide, any(row.profile_status for row in rows)
    head = node_columns(wide=wide, profiles=profiles)
    lines = [node_cells(row, wide=wide, profiles=profiles) for row in rows]
    print_table(settings, head, lines, empty="The cluster has no Node.")
