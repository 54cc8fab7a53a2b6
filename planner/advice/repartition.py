"""MIG layouts that would serve those who wait: proposed as changes of nodes, never made unasked.

In the order of the queue, each session that waits for MIG instances is tried on the nodes as they would be
after the changes proposed so far, with everybody on them who could start by then; a change is proposed only
when the planner then places the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.model.types import GroupInfo, NodeInfo, Outcome, Running, SessionRequest, Snapshot
from planner.selection.concentrated import Concentrated
from planner.selection.from_snapshot import build_group_table
from planner.selection.gang import ShapeCache
from planner.selection.mig import MIG, Layout, plan_layouts
from planner.selection.node_scorer import NodeScorer
from schemas.hardware.mig import profile_on
from schemas.hardware.model import Gpu, MigDevice

MOST_SESSIONS = 12
"""Waiting sessions that are tried."""


@dataclass(frozen=True, slots=True)
class Repartition:
    """One GPU's change: idle instances given up, and instances of a profile made at these memory slices."""

    node: str
    gpu: int
    """Index of the GPU on its node."""
    drops: tuple[str, ...]
    profile: str
    starts: tuple[int, ...]
    serves: tuple[str, ...]
    """Sessions that could start after it and the changes listed before it."""

    @property
    def command(self) -> str:
        """What makes the instances on the node, once idle ones are given up."""
        makes = ",".join(f"{self.profile}:{start}" for start in self.starts)
        return f"nvidia-smi mig -i {self.gpu} -cgi {makes} -C"


def repartitions(
    snapshot: Snapshot, group: GroupInfo, place: Callable[[Snapshot], Outcome]
) -> tuple[Repartition, ...]:
    """Changes of the group's nodes that would serve its pending sessions, in the order of the queue. `place`:
    the planner with the policies that groups name."""
    snapshot = _snapshot_of_group(snapshot, group)
    asking = [one for one in snapshot.pending if _asks_for_mig(one)]
    if not asking:
        return ()
    outcome = place(snapshot)
    positions = {wait.session: at for at, wait in enumerate(outcome.waits)}
    snapshot = _snapshot_after(snapshot, outcome)
    found: list[Repartition] = []
    for session in sorted(asking, key=lambda one: positions.get(one.id, -1))[:MOST_SESSIONS]:
        if session not in snapshot.pending:
            continue
        changed, layouts_of = _add_layouts(snapshot, group, session)
        outcome = place(changed)
        served = tuple(sorted(one.session for one in outcome.placements))
        if session.id in served:
            found += [replace(one, serves=served) for one in layouts_of]
            snapshot = _snapshot_after(changed, outcome)
    return tuple(found)


def _snapshot_after(snapshot: Snapshot, outcome: Outcome) -> Snapshot:
    """The snapshot in which everybody who was placed runs."""
    requests = {session.id: session for session in snapshot.pending}
    started = tuple(Running(requests[one.session], one, snapshot.now) for one in outcome.placements)
    placed = {one.session for one in outcome.placements}
    pending = tuple(session for session in snapshot.pending if session.id not in placed)
    return replace(snapshot, running=(*snapshot.running, *started), pending=pending)


def _asks_for_mig(session: SessionRequest) -> bool:
    slots = (one for kernel in session.kernels for one in kernel.slots.items())
    return any(MIG in slot and count > 0 for slot, count in slots)


def _snapshot_of_group(snapshot: Snapshot, group: GroupInfo) -> Snapshot:
    """The group's part of the snapshot, queued as it is."""
    return replace(
        snapshot,
        nodes=tuple(one for one in snapshot.nodes if one.group == group.name),
        groups=(replace(group, packing="as-queued", preemption=None),),
        pending=tuple(one for one in snapshot.pending if one.group == group.name),
    )


def _add_layouts(
    snapshot: Snapshot, group: GroupInfo, session: SessionRequest
) -> tuple[Snapshot, list[Repartition]]:
    """The snapshot with the layouts that the session's needs take, and these layouts."""
    found: list[Repartition] = []
    for need in ShapeCache(group).of(session).needs:
        for slot, count in need.sum.whole:
            if MIG not in slot:
                continue
            table = build_group_table(snapshot, group)
            scorer = NodeScorer(table, group.selection, Concentrated(group, table))
            taken = {one.node for one in found} if session.multi_node else set()
            options = [
                (plan, at)
                for at in scorer.admitted(need.filter).nonzero()[0].tolist()
                if table.nodes[at].name not in taken
                and (plan := plan_layouts(scorer, at, slot, count)) is not None
            ]
            if not options:
                continue
            plan, at = min(options, key=lambda one: (_count_dropped(one[0]), len(one[0]), one[1]))
            name = slot.partition(MIG)[2]
            snapshot = _snapshot_with_layouts(snapshot, table.nodes[at], plan, name)
            found += [
                Repartition(table.nodes[at].name, one.gpu.index, one.dropped, name, one.starts, ())
                for one in plan
            ]
    return snapshot, found


def _count_dropped(plan: Sequence[Layout]) -> int:
    return sum(len(layout.dropped) for layout in plan)


def _snapshot_with_layouts(snapshot: Snapshot, node: NodeInfo, plan: Sequence[Layout], name: str) -> Snapshot:
    """The snapshot with these layouts on one node."""
    of = {layout.gpu.id: layout for layout in plan}
    gpus = tuple(
        _repartitioned_gpu(gpu, of[gpu.id], name) if gpu.id in of else gpu for gpu in node.hardware.gpus
    )
    changed = replace(node, hardware=node.hardware.model_copy(update={"gpus": gpus}))
    nodes = tuple(changed if one.name == node.name else one for one in snapshot.nodes)
    return replace(snapshot, nodes=nodes)


def _repartitioned_gpu(gpu: Gpu, layout: Layout, name: str) -> Gpu:
    profile = profile_on(gpu, name)
    size = profile.size if profile else None
    stays = [one for one in gpu.mig_devices if one.id not in layout.dropped]
    made = [
        MigDevice(id=f"MIG-{gpu.id}-{name}-{start}", profile=name, start=start, size=size)
        for start in layout.starts
    ]
    return gpu.model_copy(update={"mig_devices": (*stays, *made)})
