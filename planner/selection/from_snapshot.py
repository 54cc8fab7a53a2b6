"""A snapshot as node tables: the nodes of each group with what runs on them, and what scores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.model.demand import demand_of
from planner.model.request_kinds import count_request_kinds
from planner.model.types import GroupInfo, NodeInfo, Running, SessionRequest, Snapshot
from planner.nodes.node_table import MapperCache, NodeTable
from planner.selection.base import SelectionFactory
from planner.selection.node_scorer import NodeScorer


def build_node_tables(snapshot: Snapshot) -> tuple[dict[str, NodeTable], list[str]]:
    """One table per group with the running sessions on it, and what of their records cannot be true."""
    mapper_cache = MapperCache()
    members: dict[str, list[NodeInfo]] = {group.name: [] for group in snapshot.groups}
    for node in snapshot.nodes:
        members.setdefault(node.group, []).append(node)
    tables = {name: NodeTable(nodes, mapper_cache) for name, nodes in members.items()}
    table_of = {node.name: tables[node.group] for node in snapshot.nodes}
    warnings = []
    for one in snapshot.running:
        for kernel in one.placement.kernels:
            table = table_of.get(kernel.node)
            if table is None:
                warnings.append(
                    f"{one.request.id} is recorded on node {kernel.node}, which is not in the snapshot"
                )
                continue
            mismatches = table.restore(table.index[kernel.node], one.request.id, kernel)
            warnings += [f"{one.request.id} is recorded on {kernel.node} with {what}" for what in mismatches]
    _hold_places(snapshot, tables)
    return tables, warnings


def _hold_places(snapshot: Snapshot, tables: Mapping[str, NodeTable]) -> None:
    """Those that can still be held."""
    names = {one.request.id for one in snapshot.held}
    if not names:
        return
    lent = {one.request.id for one in snapshot.running if names.intersection(one.placement.lent)}
    for each in tables.values():
        each.lent |= lent
    for one in snapshot.held:
        if one.request.group in tables:
            tables[one.request.group].hold_place(one.placement)


def build_scorer(
    snapshot: Snapshot, group: GroupInfo, table: NodeTable, factory: SelectionFactory
) -> NodeScorer:
    """The scorer of one group; its strategy may ask the table for the group's typical requests."""
    running = [one for one in snapshot.running if one.request.group == group.name]
    table.request_source = lambda: count_request_kinds(
        (demand_of(kernel, session, group), session.gpu_models)
        for session in group_sessions(snapshot, group)
        for kernel in session.kernels
    )
    return NodeScorer(table, group.selection, factory(group, table), round_robin_cursor(table, running))


def build_group_table(snapshot: Snapshot, group: GroupInfo) -> NodeTable:
    """The table of one group alone."""
    nodes = tuple(node for node in snapshot.nodes if node.group == group.name)
    return build_node_tables(replace(snapshot, nodes=nodes, groups=(group,)))[0][group.name]


def group_sessions(snapshot: Snapshot, group: GroupInfo) -> list[SessionRequest]:
    """Everybody who waits for the group or runs in it."""
    pending = [one for one in snapshot.pending if one.group == group.name]
    return [*pending, *(one.request for one in snapshot.running if one.request.group == group.name)]


def round_robin_cursor(table: NodeTable, running: Iterable[Running]) -> int:
    """Where round robin goes on: after the node of the session that started last."""
    started = [(one.started or 0.0, one.request.id, one.placement) for one in running]
    for _, _, placement in sorted(started, key=lambda one: one[:2], reverse=True):
        if placement.kernels and placement.kernels[-1].node in table.index:
            return (table.index[placement.kernels[-1].node] + 1) % len(table.nodes)
    return 0
