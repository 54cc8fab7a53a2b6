"""The autoscaler: looks at the load of services again and again, and holds how many replicas each needs. It
decides nothing else: plans take what it holds, within the bounds of documents."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reconciler.observe.scaling.queries import QueryAnswers
from reconciler.observe.scaling.sources import RequestSource, percentile
from reconciler.values.services.scaling import (
    Recommendation,
    ScaleDecision,
    ServiceLoad,
    decide_scale,
    recommend,
)
from schemas.kinds.parts.autoscaling import Autoscaling

PERIOD = 1.0
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class ScaledService:
    """`begins`: the document's `replicas`; `ready`: replicas that are; `gpu`: percent, None where nobody
    measures it; `held`: what was recorded last; `has_url`: whether its requests come by one, and are
    counted."""

    rules: Autoscaling
    begins: int
    ready: int
    gpu: float | None = None
    held: ScaleDecision | None = None
    has_url: bool = True


@dataclass(slots=True)
class _Watched:
    service: ScaledService
    held: ScaleDecision | None
    history: deque[Recommendation] = field(default_factory=deque)


class Autoscaler:
    """`source` and `queries` None: nobody knows. `now`: seconds since the epoch; `wake` is called, in the
    autoscaler's thread, when it holds something else."""

    def __init__(
        self, source: RequestSource | None, queries: QueryAnswers | None,
        now: Callable[[], float], wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._source, self._queries, self._now, self._wake = source, queries, now, wake
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._halted = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, services: Mapping[str, ScaledService]) -> None:
        """All that are scaled from now on, by identity, as they are just now."""
        with self._lock:
            for name in self._watched.keys() - services.keys():
                del self._watched[name]
            for name, service in services.items():
                known = self._watched.get(name)
                if known is None or known.service.rules != service.rules:
                    self._watched[name] = _Watched(service, known.held if known else service.held)
                else:
                    known.service = service
            if self._queries is not None:
                self._queries.forget(services.keys())
            begins = bool(self._watched) and self._thread is None and not self._halted.is_set()
            if begins:
                self._thread = threading.Thread(target=self._run, name="autoscaler", daemon=True)
        if begins and self._thread is not None:
            self._thread.start()

    def decisions(self) -> Mapping[str, ScaleDecision]:
        """Service → what is held."""
        with self._lock:
            return {name: each.held for name, each in self._watched.items() if each.held is not None}

    def look(self) -> bool:
        """One look at all of them; whether something else is held now."""
        with self._lock:
            watched = dict(self._watched)
        changed = False
        for name, each in watched.items():
            load = self._load(name, each)
            with self._lock:
                changed = self._judge(each, load) or changed
        return changed

    def halt(self) -> None:
        self._halted.set()

    def _run(self) -> None:
        while not self._halted.wait(PERIOD):
            if self.look():
                self._wake()

    def _load(self, name: str, each: _Watched) -> ServiceLoad:
        rules, now = each.service.rules, self._now()
        answer = None
        if rules.prometheus is not None and self._queries is not None:
            answer = self._queries.answer(name, rules.prometheus.query)
        load = ServiceLoad(now, gpu=each.service.gpu, prometheus=answer)
        if self._source is None or not each.service.has_url:
            return load
        seen = self._source.requests(name)
        latency = percentile(seen.latencies, rules.latency.percentile) if rules.latency else None
        return ServiceLoad(now, seen.in_flight, seen.per_second, latency, load.gpu, load.prometheus)

    def _judge(self, each: _Watched, load: ServiceLoad) -> bool:
        rules = each.service.rules
        found = recommend(rules, load, each.service.ready)
        if found is None:
            return False
        bounded = min(max(found.replicas, _least(rules)), _most(rules))
        each.history.append(Recommendation(found.at, bounded, found.why))
        # One that is older than both windows says that these are over.
        horizon = load.at - max(rules.up.window, rules.down.window)
        while len(each.history) > 1 and each.history[1].at <= horizon:
            each.history.popleft()
        before = each.held or ScaleDecision(each.service.begins, load.at, "")
        held = decide_scale(rules, each.history, before, load.at)
        if held is before:
            return False
        each.held = held
        return True


def _least(rules: Autoscaling) -> int:
    return min([rules.min, *(each.min for each in rules.schedule)])


def _most(rules: Autoscaling) -> int:
    return max([rules.max, *(each.max for each in rules.schedule)])
