"""What Prometheus is told: counters and times as they come, everything else read from the latest pass
(`pass_metrics`). No name of a session, a user or a project is in it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bai import __version__
from bai.web.cluster_loops import ClusterLoops
from bai.web.pass_metrics import PassCollector
from reconciler.controller.cycle import ReconcileCycle
from reconciler.controller.stages import Stage
from reconciler.values.results import ApplyEvent

_SECONDS_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_WAIT_BUCKETS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600)
_STAGE_HELP = {
    "pass": "A pass of the loop: everything from documents to the end of its apply.",
    "observe": "Asking the nodes what runs.",
    "plan": "Making a plan from what is wanted and what is.",
    "apply": "Carrying out a plan.",
}


class Metrics:
    """One registry for one server. Listens to these loops."""

    def __init__(self, loops: ClusterLoops) -> None:
        self.registry = here = CollectorRegistry()
        self._stages = {
            stage: Histogram(
                f"bai_{stage}_seconds", help_, ["cluster"], buckets=_SECONDS_BUCKETS, registry=here
            )
            for stage, help_ in _STAGE_HELP.items()
        }
        of, by = ["cluster"], ["cluster", "verb", "outcome"]
        self._actions = Counter("bai_actions", "Actions of plans, by outcome.", by, registry=here)
        self._bad = Counter("bai_passes_failed", "Passes in which something was wrong.", of, registry=here)
        self._errors = Counter(
            "bai_provider_errors", "What nodes and their engines did not do, or not tell.",
            ["cluster", "operation"], registry=here,
        )  # fmt: skip
        self._drifts = Counter("bai_drifts_found", "Things found other than recorded.", of, registry=here)
        self._waits = Histogram(
            "bai_queue_wait_seconds", "Time from joining a queue to being placed.", ["cluster", "group"],
            buckets=_WAIT_BUCKETS, registry=here,
        )  # fmt: skip
        self.requests = Histogram(
            "bai_http_request_seconds", "Time until an answer began.", ["route", "method", "status"],
            buckets=_SECONDS_BUCKETS, registry=here,
        )  # fmt: skip
        about = Gauge("bai_build_info", "Which bai this is.", ["version"], registry=here)
        about.labels(__version__).set(1)
        here.register(PassCollector(loops))
        for cluster in loops.clusters.values():
            self._begin(cluster.name)
            cluster.listeners.append(self.on_pass)
        loops.add_stages(self)

    def _begin(self, cluster: str) -> None:
        """Series are there from the beginning: the first error is a rise, too."""
        self._bad.labels(cluster)
        self._drifts.labels(cluster)
        for stage in self._stages.values():
            stage.labels(cluster)
        for operation in ("observe", "apply"):
            self._errors.labels(cluster, operation)

    @contextlib.contextmanager
    def stage(self, stage: Stage, cluster: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._stages[stage].labels(cluster).observe(time.monotonic() - began)

    def event(self, event: ApplyEvent, cluster: str) -> None:
        if event.kind == "step" and event.state == "failed":
            self._errors.labels(cluster, "apply").inc()

    def on_pass(self, done: ReconcileCycle) -> None:
        """A pass is over. Another replica's is counted there."""
        if done.by:
            return
        name = done.cluster
        if not done.good:
            self._bad.labels(name).inc()
        if done.actual is not None:
            blind = 0 if done.actual.complete else max(1, len(done.actual.errors))
            self._errors.labels(name, "observe").inc(max(blind, len(done.actual.missed)))
        if done.plan is None:
            return
        self._drifts.labels(name).inc(len(done.plan.drifts))
        if done.result is None:
            return
        actions = {action.id: action for action in done.plan.changes}
        for one in done.result.results:
            action = actions.get(one.action)
            self._actions.labels(name, action.verb if action else one.verb, one.outcome).inc()
            after = action.session_after if action else None
            if action is None or after is None or after.placement is None or one.outcome != "done":
                continue
            if action.placement_before is None and after.enqueued_at is not None:
                took = max(0.0, (one.finished or done.ended) - after.enqueued_at)
                self._waits.labels(name, after.placement.group).observe(took)


class RequestMetrics:
    """Middleware: how long answers take, by route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                labels = (_route_label(scope), _method_label(scope), str(message["status"]))
                self._metrics.requests.labels(*labels).observe(time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, counted if scope["type"] == "http" else send)


def _route_label(scope: Scope) -> str:
    """As it is written in the description; never what somebody made up."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "none"


def _method_label(scope: Scope) -> str:
    return scope["method"] if scope["method"] in ("GET", "POST", "HEAD", "OPTIONS") else "other"
