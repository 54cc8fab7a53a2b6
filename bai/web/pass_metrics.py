"""Metrics that are read from the latest passes: how loops are, queues, what is allocated, drift, health."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bai.web.cluster_loops import ClusterLoops, ServedCluster
from providers.health.metrics import health_metrics
from reconciler.values.figures.pass_figures import KINDS, pass_figures

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
            for name, help_, labels, value in _cluster_samples(cluster):
                family = found.setdefault(name, GaugeMetricFamily(name, help_, labels=list(labels)))
                family.add_metric(list(labels.values()), value)
        yield from found.values()


def _cluster_samples(cluster: ServedCluster) -> Iterator[_Sample]:
    name, now = {"cluster": cluster.name}, cluster.loop.workspace.clock.now()
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
    for figure in pass_figures(good.plan, good.actual, now):
        kind = KINDS[figure.name]
        labels = zip(kind.labels, figure.labels, strict=True)
        yield figure.name, kind.help, {**name, **dict(labels)}, figure.value
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
