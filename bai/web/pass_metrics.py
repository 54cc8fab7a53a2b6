"""Metrics that are read from the latest passes: how loops are, queues, what is allocated, drift, health."""

from __future__ import annotations

import time
from collections import Counter as Count
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bai.web.cluster_loops import ClusterLoops, ServedCluster
from providers.health.metrics import health_metrics
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from planner.model.types import Placement
    from reconciler.values.plan import Plan
    from reconciler.values.state import Existing

_Sample = tuple[str, str, dict[str, str], float]


class PassCollector(Collector):
    """Values of the latest passes."""

    def __init__(self, loops: ClusterLoops) -> None:
        self._loops = loops

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        found: dict[str, GaugeMetricFamily] = {}
        for cluster in self._loops.clusters.values():
            for name, help_, labels, value in _cluster_samples(cluster, time.time()):
                family = found.setdefault(name, GaugeMetricFamily(name, help_, labels=list(labels)))
                family.add_metric(list(labels.values()), value)
        yield from found.values()


def _cluster_samples(cluster: ServedCluster, now: float) -> Iterator[_Sample]:
    name = {"cluster": cluster.name}
    yield "bai_loop_leads", "Whether this replica acts for the cluster.", name, float(cluster.loop.leads())
    yield "bai_loop_silent_seconds", "How long a loop at work showed no life.", name, cluster.pulse.silent
    if not cluster.loop.leads():
        return  # Whoever leads tells the rest: the sum over all replicas is what there is.
    yield from _notification_samples(cluster, name)
    latest, good = cluster.latest, cluster.good
    if latest is not None:
        yield "bai_loop_lag_seconds", "Time since the last pass ended.", name, max(0.0, now - latest.ended)
        yield "bai_loop_good", "Whether the last pass found nothing wrong.", name, float(latest.good)
        commit = {**name, "commit": cluster.loop.workspace.commit}
        yield "bai_commit_info", "The commit that is in force.", commit, 1.0
        held = float(len(latest.violations))
        yield "bai_policy_violations", "Reasons for which guards hold changes back.", name, held
    if good is None or good.plan is None or good.actual is None:
        return
    phases = Count(each.phase for key, each in good.actual.existing.items() if ref_of(key).kind == "Session")
    for phase, count in sorted(phases.items()):
        yield "bai_sessions", "Sessions by phase.", {**name, "phase": phase}, float(count)
    yield "bai_drifts", "Things found to be other than recorded.", name, float(len(good.plan.drifts))
    unreached = float(len(good.plan.unreached))
    yield "bai_nodes_unreached", "Nodes that do not answer.", name, unreached
    yield from _queue_samples(name, good.plan, good.actual.existing, now)
    yield from _group_samples(name, good.plan)
    yield from _locality_samples(name, good.plan, good.actual.existing)
    for each in health_metrics(good.actual.health.values()):
        yield each.name, "Health of a node.", {**name, **each.labels}, each.value


def _notification_samples(cluster: ServedCluster, name: dict[str, str]) -> Iterator[_Sample]:
    for notification, tally in sorted(
        cluster.dispatcher.delivery_counts.items() if cluster.dispatcher else ()
    ):
        labels = {**name, "notification": notification}
        yield "bai_notifications_sent", "Messages that were sent, ever.", labels, float(tally.sent)
        yield "bai_notifications_failed", "Tries that came to nothing, ever.", labels, float(tally.failed)
        yield "bai_notifications_lost", "Events that were left out, ever.", labels, float(tally.lost)
        yield "bai_notifications_waiting", "Events that wait to be sent.", labels, float(tally.waiting)


def _queue_samples(
    name: dict[str, str], plan: Plan, existing: Mapping[str, Existing], now: float
) -> Iterator[_Sample]:
    groups = Count(wait.group for wait in plan.waits if not wait.is_held)
    reasons = Count((wait.group, reason.code) for wait in plan.waits for reason in wait.reasons)
    for group in sorted({*groups, *(use.group for use in plan.groups)}):
        yield (
            "bai_queue_length",
            "Sessions that wait in the queue.",
            {**name, "group": group},
            float(groups[group]),
        )
    for (group, code), count in sorted(reasons.items()):
        labels = {**name, "group": group, "reason": code}
        yield "bai_queue_reasons", "Reasons for which sessions wait.", labels, float(count)
    oldest: dict[tuple[str, str], float] = {}
    for wait in plan.waits:
        there = existing.get(wait.session)
        since = there.recorded.enqueued_at if there else None
        for reason in wait.reasons:
            key = (wait.group, reason.code)
            oldest[key] = max(oldest.get(key, 0.0), now - since if since is not None else 0.0)
    for (group, code), age in sorted(oldest.items()):
        labels = {**name, "group": group, "reason": code}
        yield "bai_queue_oldest_seconds", "How long who waits longest has waited.", labels, age


def _group_samples(name: dict[str, str], plan: Plan) -> Iterator[_Sample]:
    for use in plan.groups:
        for slot, capacity in sorted(use.capacity.items()):
            labels = {**name, "group": use.group, "slot": slot}
            yield "bai_capacity", "What a group has, in smallest units.", labels, float(capacity)
            yield "bai_allocated", "What of it sessions hold.", labels, float(use.after.get(slot, 0))
        for size, count in sorted(use.fits_after.items()):
            labels = {**name, "group": use.group, "size": size}
            yield "bai_fits", "How many more sessions of a size fit: fragmentation.", labels, float(count)


def _locality_samples(
    name: dict[str, str], plan: Plan, existing: Mapping[str, Existing]
) -> Iterator[_Sample]:
    """Over how many NUMA nodes the containers of sessions are spread, and sessions over nodes."""
    placed = {
        key: each.recorded.placement
        for key, each in existing.items()
        if each.recorded.placement is not None and each.kernels
    }
    for action in plan.actions:
        after = action.session_after
        if after is not None and after.placement is not None and after.kernels:
            placed[action.id] = after.placement
    found = [placement for placement in placed.values() if placement is not None]
    for nodes, count in sorted(Count(map(_numa_nodes, found)).items()):
        labels = {**name, "numaNodes": str(nodes)}
        yield "bai_sessions_by_numa_nodes", "Most NUMA nodes of a container.", labels, float(count)
    for nodes, count in sorted(Count(map(_nodes, found)).items()):
        labels = {**name, "nodes": str(nodes)}
        yield "bai_sessions_by_nodes", "Nodes of a session.", labels, float(count)


def _numa_nodes(placement: Placement) -> int:
    return max((len(kernel.memory_nodes) for kernel in placement.kernels), default=0)


def _nodes(placement: Placement) -> int:
    return len({kernel.node for kernel in placement.kernels})
