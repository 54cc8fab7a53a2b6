"""Replicas of services as requests find them: by what a cluster's last plan says of them, and how they answer
just now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bai.render.humanize import plural
from bai.web.apps.proxy.balancer import Balancer, Replica, place_of

if TYPE_CHECKING:
    from bai.web.apps.shared_traffic import SharedTraffic
    from planner.model.types import KernelPlacement
    from reconciler.observe.scaling.sources import Requests
    from reconciler.values.plan import Plan
    from reconciler.values.services.readiness import Readiness
    from reconciler.values.services.status import ReplicaStatus, ServiceStatus
    from reconciler.values.state import Actual

PATIENCE = 5.0
"""Seconds that one apply waits for requests of a replica: a pass of the loop is everybody's."""


def _nobody(kernel: str) -> bool:
    return False


Ready = Callable[[str], "Readiness | None"]
"""How a replica (identity of its session) answers just now; None where it was not asked."""


class ReplicaTraffic:
    """Of one cluster; what an apply tells of its replicas. `wake`: has the next apply come soon; `ready`
    None: what the last pass saw of them counts. `shared`: what other servers on its store say."""

    def __init__(
        self, cluster: str, balancer: Balancer, say: Callable[[str], None], wake: Callable[[], None],
        ready: Ready | None = None, shared: SharedTraffic | None = None,
    ) -> None:  # fmt: skip
        self._cluster, self._balancer, self._say, self._ready = cluster, balancer, say, ready
        self._wake, self._shared = wake, shared
        self._timers: dict[str, threading.Timer] = {}

    def follow(self, plan: Plan, actual: Actual) -> None:
        ready = self._ready or actual.readiness.get
        unready = self._shared.is_unready if self._shared is not None else _nobody
        found = replicas_by_service(plan.services, actual, self._cluster, ready, unready)
        self._balancer.update(self._cluster, found)
        if self._shared is not None:
            serving = {each.place for replicas in found.values() for each in replicas}
            self._shared.follow(plan, actual, serving)

    def drain(self, kernel: str, grace: float, waits: Callable[[int], None], stop: threading.Event) -> bool:
        def tell(left: int) -> None:
            self._say(f"{kernel} is draining: {plural(left, 'connection')} left")
            waits(left)

        place = place_of(self._cluster, kernel)
        if self._shared is not None:
            self._shared.begin_drain(kernel)
        has = self._balancer.drain(place, grace, PATIENCE, tell, stop)
        if has:
            self._come_back(kernel, place, has)
        elif left := self._balancer.connections(place):
            self._say(f"{kernel} is stopped with {plural(left, 'connection')} left")
        return not has

    def _come_back(self, kernel: str, place: str, seconds: float) -> None:
        """When it has no connections any more, or its time is over."""
        self._balancer.when_over(place, self._wake)
        if kernel in self._timers:
            return

        def over() -> None:
            del self._timers[kernel]
            self._wake()

        timer = self._timers[kernel] = threading.Timer(seconds, over)
        timer.daemon = True
        timer.start()

    def requests(self, service: str) -> Requests:
        """What is asked of a service just now."""
        return self._balancer.requests(place_of(self._cluster, service))


def replicas_by_service(
    services: Sequence[ServiceStatus],
    actual: Actual,
    cluster: str,
    ready: Ready,
    unready: Callable[[str], bool] = _nobody,
) -> Mapping[str, Sequence[Replica]]:
    """Those that get a part of the requests, and run. Who is about to stop is none. `unready`: kernels that
    others find so."""
    return {
        place_of(cluster, service.service): tuple(
            Replica(
                place_of(cluster, kernel), each.generation, each.weight, part.listening,
                partial(_answers, each, ready, partial(unready, kernel)),
                {grant.port: grant.on for grant in part.ports if part.listening(grant.port) != grant.port},
            )
            for each, kernel, part in _served(service, actual)
        )
        for service in services
    }  # fmt: skip


def _served(service: ServiceStatus, actual: Actual) -> Iterator[tuple[ReplicaStatus, str, KernelPlacement]]:
    """With the kernel and the place of its main container."""
    for each in service.replicas:
        existing = actual.existing.get(each.session)
        record = existing.recorded if existing is not None else None
        if each.weight <= 0 or existing is None or existing.phase != "RUNNING" or record is None:
            continue
        if not record.kernels or record.placement is None or not record.placement.kernels:
            continue
        yield each, record.kernels[0], record.placement.kernels[0]


def _answers(replica: ReplicaStatus, ready: Ready, unready: Callable[[], bool]) -> bool:
    """Where nobody has asked it here, the plan knows whether that is needed, and others what it says."""
    answer = ready(replica.session)
    return answer.ready if answer is not None else replica.phase == "ready" and not unready()
