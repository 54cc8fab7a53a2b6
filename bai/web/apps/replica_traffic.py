"""Replicas of services as requests find them: by what a cluster's last plan says of them, and how they answer
just now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bai.render.humanize import plural
from bai.web.apps.proxy.balancer import Balancer, Replica

if TYPE_CHECKING:
    from reconciler.observe.scaling.sources import Requests
    from reconciler.values.plan import Plan
    from reconciler.values.services.readiness import Readiness
    from reconciler.values.services.status import ReplicaStatus, ServiceStatus
    from reconciler.values.state import Actual

Ready = Callable[[str], "Readiness | None"]
"""How a replica (identity of its session) answers just now; None where it was not asked."""


class ReplicaTraffic:
    """Of one cluster; what an apply tells of its replicas. `ready` None: what the last pass saw of them
    counts."""

    def __init__(
        self, cluster: str, balancer: Balancer, say: Callable[[str], None], ready: Ready | None = None
    ) -> None:
        self._cluster, self._balancer, self._say, self._ready = cluster, balancer, say, ready

    def follow(self, plan: Plan, actual: Actual) -> None:
        ready = self._ready or actual.readiness.get
        found = replicas_by_service(plan.services, actual, self._cluster, ready)
        self._balancer.update(self._cluster, found)

    def drain(self, kernel: str, grace: float, waits: Callable[[int], None], stop: threading.Event) -> None:
        def tell(left: int) -> None:
            self._say(f"{kernel} is draining: {plural(left, 'connection')} left")
            waits(left)

        left = self._balancer.drain(place_of(self._cluster, kernel), grace, tell, stop)
        if left:
            self._say(f"{kernel} is stopped with {plural(left, 'connection')} left")

    def requests(self, service: str) -> Requests:
        """What is asked of a service just now."""
        return self._balancer.requests(place_of(self._cluster, service))


def place_of(cluster: str, name: str) -> str:
    """Of a kernel's id or a service, as the balancer knows it."""
    return f"{cluster}/{name}"


def replicas_by_service(
    services: Sequence[ServiceStatus], actual: Actual, cluster: str, ready: Ready
) -> Mapping[str, Sequence[Replica]]:
    """Those that get a part of the requests, and run. Who is about to stop is none."""
    return {
        place_of(cluster, each.service): tuple(_replicas(each, actual, cluster, ready)) for each in services
    }


def _replicas(service: ServiceStatus, actual: Actual, cluster: str, ready: Ready) -> Iterator[Replica]:
    for each in service.replicas:
        existing = actual.existing.get(each.session)
        record = existing.recorded if existing is not None else None
        if each.weight <= 0 or existing is None or existing.phase != "RUNNING" or record is None:
            continue
        if not record.kernels or record.placement is None or not record.placement.kernels:
            continue
        yield Replica(
            place_of(cluster, record.kernels[0]), each.generation, each.weight,
            record.placement.kernels[0].listening, partial(_answers, each, ready),
        )  # fmt: skip


def _answers(replica: ReplicaStatus, ready: Ready) -> bool:
    """Where nobody has asked it, the plan knows whether that is needed."""
    answer = ready(replica.session)
    return answer.ready if answer is not None else replica.phase == "ready"
