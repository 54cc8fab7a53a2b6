"""`bai nodes list` and `bai get nodes`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bai.queries.facts.node_infos import node_infos
from bai.queries.names.resource_names import resolve_name
from bai.render.nodes.rows import (
    NodeRow,
    held_kernels,
    node_cells,
    node_columns,
    node_json,
    node_row,
    running_placements,
)
from bai.render.printout import Printout, Table
from reconciler.plan.nodes.profile_status import profile_status
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bai.queries.models import Form, NodesQuery
    from bai.queries.view import ClusterView
    from reconciler.values.state import Actual, Desired
    from schemas.kinds.node import Node


def answer(view: ClusterView, query: NodesQuery) -> Printout:
    """Raises NoSuchResource, AmbiguousName."""
    return list_nodes(view, query.name, query.form)


def list_nodes(view: ClusterView, name: str, form: Form, part: Callable[[int], slice] = slice) -> Printout:
    """The nodes, or the one named; those that `part` says when it hears how many there are."""
    names = sorted(node.name for node in view.desired.repository.nodes_of(view.desired.cluster))
    if name:
        names = [ref_of(resolve_name(name, [identity_of("Node", each) for each in names], "Node")).name]
    shown = node_rows(view.desired, view.actual, set(names[part(len(names))]))
    rows = [seen_row(view, row) for row in shown]
    if form == "json":
        return Printout("bai.nodes/v1", {"nodes": [node_json(row) for row in rows]})
    wide, profiles = form == "wide", any(profile_status(view.actual, each) for each in names)
    head = node_columns(wide=wide, profiles=profiles)
    cells = tuple(tuple(node_cells(row, wide=wide, profiles=profiles)) for row in rows)
    return Printout(blocks=(Table(tuple(head), cells, empty="The cluster has no Node."),))


def seen_row(view: ClusterView, row: NodeRow) -> NodeRow:
    """Without what its documents say, and why it is as it is, where these are not for the viewer."""
    status = row.profile_status
    if status is None or view.sees(identity_of("Node", row.name)):
        return row
    bare = replace(
        status,
        profile="",
        why="",
        unready="not provisioned" if status.unready else "",
        deviations=(),
        unreached="not reached" if status.unreached else "",
        reboot="pending" if status.reboot else "",
    )
    return replace(row, profile_status=bare)


def node_rows(desired: Desired, actual: Actual, only: Collection[str] | None = None) -> list[NodeRow]:
    """Every node of the cluster (or of `only`), by name, whether or not its hardware is known."""
    infos, held = node_infos(desired, actual), held_kernels(running_placements(actual))
    rows = []
    for node in desired.repository.nodes_of(desired.cluster):
        if only is not None and node.name not in only:
            continue
        name, address = node.metadata.name, node.spec.address or node.metadata.name
        if name in infos:
            rows.append(node_row(infos[name], held.get(name, ()), address, profile_status(actual, name)))
        else:
            rows.append(declared_row(desired, actual, node))
    return sorted(rows, key=lambda row: row.name)


def declared_row(desired: Desired, actual: Actual, node: Node) -> NodeRow:
    """A node whose hardware is not known."""
    group, how = desired.repository.group_of_node(node) or "", profile_status(actual, node.name)
    return NodeRow(
        name=node.name,
        group=group,
        state="unprovisioned" if how is not None and how.unready else node.spec.state,
        address=node.spec.address or node.name,
        profile_status=how,
    )
