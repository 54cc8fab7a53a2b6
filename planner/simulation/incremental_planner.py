"""Planning again and again while time passes, on node tables that keep what runs from one plan to the next.

The answers are those of `place` on a fresh snapshot, but for one thing: the requests that count as typical
(`least-fragmentation`) are looked at again only after a part of the sessions has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from planner.admission.quota import requested_slots
from planner.model.types import GroupInfo, Outcome, Running, SessionRequest, Snapshot
from planner.nodes.node_table import NodeTable
from planner.place import place, place_on_tables
from planner.policies import Policies, built_in_policies
from planner.queue.dominant_share import dominant_share
from planner.resource_group import GroupCache, GroupContext, make_group_cache
from planner.selection.base import SelectionFactory
from planner.selection.from_snapshot import build_node_tables, build_scorer, round_robin_cursor
from planner.selection.node_scorer import NodeScorer
from planner.simulation.usage import DecayedUsage
from planner.simulation.values import Cluster

CHANGED, LEAST = 8, 64
"""One part in so many of the sessions, and so many in all, must have come or gone before typical requests are
counted anew."""


class IncrementalPlanner:
    """What runs where, from plan to plan. `fresh`: count typical requests anew for every plan."""

    def __init__(self, cluster: Cluster, policies: Policies, *, fresh: bool = False) -> None:
        self.cluster, self._policies, self._fresh = cluster, policies, fresh
        self.running: dict[str, Running] = {}
        empty = Snapshot(cluster.nodes, cluster.groups, cluster.quotas)
        tables = build_node_tables(empty)[0]
        self.tables: dict[str, NodeTable] = {group.name: tables[group.name] for group in cluster.groups}
        self._caches: dict[str, GroupCache] = {
            group.name: make_group_cache(group, tables[group.name], ()) for group in cluster.groups
        }
        self._scorers: dict[str, tuple[NodeScorer, int, int]] = {}
        self._usage = DecayedUsage(cluster.groups)
        self._changes = 0

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

        outcome = (
            self._decide_whole_queue(snapshot)
            if packs_whole_queue(self.cluster)
            else self._decide_as_queued(snapshot, explained)
        )
        for gone in outcome.evictions:
            self._remove_running(gone.session, now)
        requests = {one.id: one for one in pending}
        for placement in outcome.placements:
            request = requests[placement.session]
            self.running[request.id] = Running(request, placement, now)
        self._changes += len(outcome.placements)
        return outcome

    def _decide_as_queued(self, snapshot: Snapshot, explained: bool) -> Outcome:
        """The plan of now, made on the tables as they are."""

        def context(group: GroupInfo, factory: SelectionFactory) -> GroupContext:
            return GroupContext(self._scorer(snapshot, group, factory), self._caches[group.name])

        return place_on_tables(snapshot, context, self._policies, explained=explained)

    def _decide_whole_queue(self, snapshot: Snapshot) -> Outcome:
        """The plan of now from a fresh snapshot, where a group packs its whole queue; the tables follow."""
        outcome = place(snapshot, self._policies)
        requests = {one.id: one for one in snapshot.pending}
        for gone in outcome.evictions:
            self._caches[gone.group].view.hold(self.running[gone.session].request, -1)
            self.tables[gone.group].release({gone.session})
        for placement in outcome.placements:
            table = self.tables[placement.group]
            self._caches[placement.group].view.hold(requests[placement.session])
            for kernel in placement.kernels:
                table.restore(table.index[kernel.node], placement.session, kernel)
        return outcome

    def release(self, gone: Collection[str], now: float) -> None:
        """These sessions have ended."""
        places: dict[str, set[str]] = {}
        for identity in gone:
            one = self._remove_running(identity, now)
            self._caches[one.request.group].view.hold(one.request, -1)
            places.setdefault(one.request.group, set()).add(identity)
        for group, sessions in places.items():
            self.tables[group].release(sessions)

    def _remove_running(self, identity: str, now: float) -> Running:
        one = self.running.pop(identity)
        self._changes += 1
        share = float(dominant_share(self._caches[one.request.group].view, requested_slots(one.request)))
        self._usage.add(one.request, share, now if one.started is None else one.started, now)
        return one

    def _scorer(self, snapshot: Snapshot, group: GroupInfo, factory: SelectionFactory) -> NodeScorer:
        table = self.tables[group.name]
        known, since, size = self._scorers.get(group.name, (None, 0, 0))
        sessions = len(snapshot.pending) + len(snapshot.running)
        old = self._changes - since > max(LEAST, sessions // CHANGED, size // CHANGED)
        if known is None or (old and group.selection == "least-fragmentation") or self._fresh:
            table.forget_request_kinds()
            made = build_scorer(snapshot, group, table, factory)
            self._scorers[group.name] = (made, self._changes, sessions)
            return made
        if getattr(known.strategy, "rotates", False):
            known.cursor = round_robin_cursor(
                table, [one for one in snapshot.running if one.request.group == group.name]
            )
        return known


def packs_whole_queue(cluster: Cluster) -> bool:
    """Whether a group packs its whole queue in each plan."""
    return any(group.packing == "whole-queue" for group in cluster.groups)


def fewest_numa_nodes(cluster: Cluster, requests: Iterable[SessionRequest]) -> dict[str, int]:
    """Session → most NUMA nodes of one of its containers if it had the cluster for itself; 0 where it fits
    nowhere even then."""
    groups = tuple(
        replace(group, selection="concentrated", queue="fifo", queue_options={}, reservations=())
        for group in cluster.groups
    )
    alone = IncrementalPlanner(replace(cluster, groups=groups, quotas=()), built_in_policies())
    known: dict[SessionRequest, int] = {}
    found = {}
    for request in requests:
        key = _demand_key(request)
        if key not in known:
            outcome = alone.decide(0.0, [key])
            alone.release([one.session for one in outcome.placements], 0.0)
            choices = [one.choice for one in outcome.placements if one.choice]
            known[key] = choices[0].numa_nodes if choices else 0
        found[request.id] = known[key]
    return found


def _demand_key(request: SessionRequest) -> SessionRequest:
    """The same demand, whoever asks for it and whenever."""
    return replace(
        request,
        id="alone",
        kernels=tuple(
            replace(kernel, slots=_HashableMap(sorted(kernel.slots.items()))) for kernel in request.kernels
        ),
        node_selector=_HashableMap(sorted(request.node_selector.items())),
        user="",
        enqueued=0.0,
        starts_at=None,
        timeout=None,
        priority=0,
        depends_on=frozenset(),
        skips=0,
        replica_of=None,
    )


class _HashableMap(dict[str, Any]):
    """A mapping that does not change, so that it can be part of a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))
