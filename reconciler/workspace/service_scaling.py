"""The autoscaler of one cluster, where a loop keeps one; it goes on through changes of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.observe.scaling.autoscaler import Autoscaler, ScaledService
    from reconciler.observe.scaling.sources import Query, RequestSource
    from reconciler.values.state import Actual, Desired


class ServiceScaling:
    """`source` and `query` may be set before the first look; `now`: seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.source: RequestSource | None = None
        self.query: Query | None = None
        self._now = now
        self._wake: Callable[[], None] | None = None
        self._autoscaler: Autoscaler | None = None

    def keep_scaling(self, wake: Callable[[], None]) -> None:
        """From the next look on; `wake` is called, in another thread, when it holds something else."""
        self._wake = wake

    def add_scales(self, found: Actual, desired: Desired) -> Actual:
        """What was seen, with what the autoscaler holds. Costs nothing where no service is scaled."""
        scaled = any(each.service.spec.autoscaling is not None for each in desired.services.values())
        if self._wake is None or not (scaled or self._autoscaler):
            return found
        from reconciler.observe.scaling.autoscaler import Autoscaler
        from reconciler.observe.scaling.queries import QueryAnswers

        if self._autoscaler is None:
            queries = QueryAnswers(self.query, self._now) if self.query is not None else None
            self._autoscaler = Autoscaler(self.source, queries, self._now, self._wake)
        self._autoscaler.watch(_scaled_services(found, desired))
        return replace(found, scales=self._autoscaler.decisions())

    def rest(self) -> None:
        """Nobody looks until the next look of a loop that acts, which begins with what is recorded then."""
        self.halt()
        self._autoscaler = None

    def halt(self) -> None:
        if self._autoscaler is not None:
            self._autoscaler.halt()


def _scaled_services(found: Actual, desired: Desired) -> Mapping[str, ScaledService]:
    from reconciler.observe.scaling.autoscaler import ScaledService
    from reconciler.observe.scaling.sources import gpu_use
    from reconciler.values.documents.service_replicas import replica_of

    specs = {identity: each.service.spec for identity, each in desired.services.items()}
    rules = {identity: spec.autoscaling for identity, spec in specs.items() if spec.autoscaling is not None}
    ready = dict.fromkeys(rules, 0)
    for identity, answer in found.readiness.items():
        existing = found.existing.get(identity)
        ref = replica_of(existing) if existing is not None else None
        if answer.ready and ref is not None and ref.service in ready:
            ready[ref.service] += 1
    gpu = gpu_use(found) if any(each.gpu_utilization is not None for each in rules.values()) else {}
    has_url = desired.repository.app_proxy_of(desired.cluster) is not None
    made = {}
    for identity, each in rules.items():
        record = found.existing.get(identity)
        held = record.recorded.service.scale if record is not None else None
        begins = specs[identity].replicas
        made[identity] = ScaledService(each, begins, ready[identity], gpu.get(identity), held, has_url)
    return made
