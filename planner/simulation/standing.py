"""A cluster that stands while time passes: `place` is asked again and again, on worlds that keep what runs.

The answers are those of `place` on a fresh snapshot, but for one thing: the requests that count as typical
(`least-fragmentation`) are looked at again only after a part of the sessions has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from planner.admission.quota import demand
from planner.model.types import GroupInfo, Outcome, Running, SessionRequest, Snapshot
from planner.nodes.node_arrays import World
from planner.place import BUILT_IN, Policies, Stage, place, place_on
from planner.queue.drf import share_of
from planner.resource_group import Memory, remember
from planner.selection.base import SelectionFactory
from planner.selection.choose import Chooser
from planner.selection.worlds import make_chooser, make_worlds, turn
from planner.simulation.usage import Usage
from planner.simulation.values import Cluster

CHANGED, LEAST = 8, 64
"""One part in so many of the sessions, and so many in all, must have come or gone before typical requests are
counted anew."""


class Standing:
    """What runs where, from plan to plan. `fresh`: count typical requests anew for every plan."""

    def __init__(self, cluster: Cluster, policies: Policies = BUILT_IN, *, fresh: bool = False) -> None:
        self.cluster, self._policies, self._fresh = cluster, policies, fresh
        self.running: dict[str, Running] = {}
        empty = Snapshot(cluster.nodes, cluster.groups, cluster.quotas)
        worlds = make_worlds(empty)[0]
        self.worlds: dict[str, World] = {group.name: worlds[group.name] for group in cluster.groups}
        self._memories: dict[str, Memory] = {
            group.name: remember(group, worlds[group.name], ()) for group in cluster.groups
        }
        self._choosers: dict[str, tuple[Chooser, int, int]] = {}
        self._usage = Usage(cluster.groups)
        self._came = 0

    def decide(self, now: float, pending: Sequence[SessionRequest], *, explained: bool = False) -> Outcome:
        """Place whom `place` would place now; they run from here on, and whoever was pushed out does not."""
        snapshot = Snapshot(
            nodes=self.cluster.nodes,
            groups=self.cluster.groups,
            quotas=self.cluster.quotas,
            running=tuple(self.running.values()),
            pending=tuple(pending),
            now=now,
            usage=self._usage.at(now),
        )

        outcome = self._packed(snapshot) if packs(self.cluster) else self._placed(snapshot, explained)
        for gone in outcome.evictions:
            self._ended(gone.session, now)
        requests = {one.id: one for one in pending}
        for placement in outcome.placements:
            request = requests[placement.session]
            self.running[request.id] = Running(request, placement, now)
        self._came += len(outcome.placements)
        return outcome

    def _placed(self, snapshot: Snapshot, explained: bool) -> Outcome:
        """The plan of now, made on the worlds as they stand."""

        def stage(group: GroupInfo, factory: SelectionFactory) -> Stage:
            return Stage(self._chooser(snapshot, group, factory), self._memories[group.name])

        return place_on(snapshot, stage, self._policies, explained=explained)

    def _packed(self, snapshot: Snapshot) -> Outcome:
        """The plan of now from a fresh snapshot, where a group packs its whole queue; the worlds follow."""
        outcome = place(snapshot, self._policies)
        requests = {one.id: one for one in snapshot.pending}
        for gone in outcome.evictions:
            self._memories[gone.group].view.hold(self.running[gone.session].request, -1)
            self.worlds[gone.group].release({gone.session})
        for placement in outcome.placements:
            world = self.worlds[placement.group]
            self._memories[placement.group].view.hold(requests[placement.session])
            for kernel in placement.kernels:
                world.restore(world.index[kernel.node], placement.session, kernel)
        return outcome

    def release(self, gone: Collection[str], now: float) -> None:
        """These sessions have ended."""
        places: dict[str, set[str]] = {}
        for identity in gone:
            one = self._ended(identity, now)
            self._memories[one.request.group].view.hold(one.request, -1)
            places.setdefault(one.request.group, set()).add(identity)
        for group, sessions in places.items():
            self.worlds[group].release(sessions)

    def _ended(self, identity: str, now: float) -> Running:
        one = self.running.pop(identity)
        self._came += 1
        share = float(share_of(self._memories[one.request.group].view, demand(one.request)))
        self._usage.add(one.request, share, now if one.started is None else one.started, now)
        return one

    def _chooser(self, snapshot: Snapshot, group: GroupInfo, factory: SelectionFactory) -> Chooser:
        world = self.worlds[group.name]
        known, since, size = self._choosers.get(group.name, (None, 0, 0))
        sessions = len(snapshot.pending) + len(snapshot.running)
        old = self._came - since > max(LEAST, sessions // CHANGED, size // CHANGED)
        if known is None or (old and group.selection == "least-fragmentation") or self._fresh:
            world.__dict__.pop("kinds", None)
            made = make_chooser(snapshot, group, world, factory)
            self._choosers[group.name] = (made, self._came, sessions)
            return made
        if getattr(known.strategy, "rotates", False):
            known.cursor = turn(world, [one for one in snapshot.running if one.request.group == group.name])
        return known


def packs(cluster: Cluster) -> bool:
    """Whether a group packs its whole queue in each plan."""
    return any(group.packing == "whole-queue" for group in cluster.groups)


def fewest_numa_nodes(cluster: Cluster, requests: Iterable[SessionRequest]) -> dict[str, int]:
    """Session → most NUMA nodes of one of its containers if it had the cluster for itself; 0 where it fits
    nowhere even then."""
    groups = tuple(
        replace(group, selection="concentrated", queue="fifo", queue_options={}, reservations=())
        for group in cluster.groups
    )
    alone = Standing(replace(cluster, groups=groups, quotas=()))
    known: dict[SessionRequest, int] = {}
    found = {}
    for request in requests:
        key = _unnamed(request)
        if key not in known:
            outcome = alone.decide(0.0, [key])
            alone.release([one.session for one in outcome.placements], 0.0)
            choices = [one.choice for one in outcome.placements if one.choice]
            known[key] = choices[0].numa_nodes if choices else 0
        found[request.id] = known[key]
    return found


def _unnamed(request: SessionRequest) -> SessionRequest:
    """The same demand, whoever asks for it and whenever."""
    return replace(
        request,
        id="alone",
        kernels=tuple(
            replace(kernel, slots=_Slots(sorted(kernel.slots.items()))) for kernel in request.kernels
        ),
        node_selector=_Slots(sorted(request.node_selector.items())),
        user="",
        enqueued=0.0,
        starts_at=None,
        timeout=None,
        priority=0,
        depends_on=frozenset(),
        skips=0,
    )


class _Slots(dict[str, Any]):
    """A mapping that does not change, so that it can be part of a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))
