"""A snapshot as worlds: the nodes of each group with what runs on them, and what chooses among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.model.demand import demand_of
from planner.model.types import GroupInfo, NodeInfo, Running, SessionRequest, Snapshot
from planner.nodes.node_arrays import Machines, World
from planner.nodes.typical_requests import kinds_of
from planner.selection.base import SelectionFactory
from planner.selection.choose import Chooser


def make_worlds(snapshot: Snapshot) -> tuple[dict[str, World], list[str]]:
    """One world per group with the running sessions on it, and what of their records cannot be true."""
    machines = Machines()
    members: dict[str, list[NodeInfo]] = {group.name: [] for group in snapshot.groups}
    for node in snapshot.nodes:
        members.setdefault(node.group, []).append(node)
    worlds = {name: World(nodes, machines) for name, nodes in members.items()}
    world_of = {node.name: worlds[node.group] for node in snapshot.nodes}
    warnings = []
    for one in snapshot.running:
        for kernel in one.placement.kernels:
            world = world_of.get(kernel.node)
            if world is None:
                warnings.append(
                    f"{one.request.id} is recorded on node {kernel.node}, which is not in the snapshot"
                )
                continue
            wrong = world.restore(world.index[kernel.node], one.request.id, kernel)
            warnings += [f"{one.request.id} is recorded on {kernel.node} with {what}" for what in wrong]
    return worlds, warnings


def make_chooser(snapshot: Snapshot, group: GroupInfo, world: World, factory: SelectionFactory) -> Chooser:
    """The chooser of one group; its strategy may ask the world for the group's typical requests."""
    running = [one for one in snapshot.running if one.request.group == group.name]
    world.requests = lambda: kinds_of(
        (demand_of(kernel, session, group), session.gpu_models)
        for session in known_sessions(snapshot, group)
        for kernel in session.kernels
    )
    return Chooser(world, group.selection, factory(group, world), turn(world, running))


def group_world(snapshot: Snapshot, group: GroupInfo) -> World:
    """The world of one group alone."""
    nodes = tuple(node for node in snapshot.nodes if node.group == group.name)
    return make_worlds(replace(snapshot, nodes=nodes, groups=(group,)))[0][group.name]


def known_sessions(snapshot: Snapshot, group: GroupInfo) -> list[SessionRequest]:
    """Everybody who waits for the group or runs in it."""
    pending = [one for one in snapshot.pending if one.group == group.name]
    return [*pending, *(one.request for one in snapshot.running if one.request.group == group.name)]


def turn(world: World, running: Iterable[Running]) -> int:
    """Where round robin goes on: after the node of the session that started last."""
    started = [(one.started or 0.0, one.request.id, one.placement) for one in running]
    for _, _, placement in sorted(started, key=lambda one: one[:2], reverse=True):
        if placement.kernels and placement.kernels[-1].node in world.index:
            return (world.index[placement.kernels[-1].node] + 1) % len(world.nodes)
    return 0
