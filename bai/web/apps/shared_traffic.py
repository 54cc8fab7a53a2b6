"""Several servers on one store hand requests to the same replicas. What they tell each other of it, through
the store: which replicas are drained, and how many connections and requests each of them has.

Each has one row, which it alone writes: at once for a replica that it drains or has heard of, else once a
second at most, and every two seconds while there is somebody to read it. Whose row stays as it is has gone.
A server says first that it is there, and then looks who is drained; who drains says so first, and then looks
who is there: none of two that begin at one moment misses the other.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from bai.web.apps.proxy.balancer import MOST_REMEMBERED, Balancer, Elsewhere, Replica, place_of
from reconciler.observe.scaling.sources import Requests
from reconciler.values.services.server_report import (
    RequestCount,
    Route,
    SavedReport,
    ServerReport,
    count_latencies,
    read_report,
    report_text,
    sample_of,
)
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from reconciler.store.store import Store
    from reconciler.values.plan import Plan
    from reconciler.values.state import Actual

LOOK_EVERY = 0.5
"""Seconds between two looks at what others say, and while something is drained:"""
LOOK_SOON = 0.1
SAY_EVERY = 1.0
"""Seconds between two words about what changes all the time, at least, and between two of any kind, at most,
while others hear them:"""
BEAT = 2.0
SILENT = 8.0
"""Seconds without a word after which another server counts no more."""
FORGOTTEN = 120.0
"""Seconds without a word after which its row goes."""
LINGER = 10.0
"""Seconds for which a replica that is gone is still said to be drained: others learn from their next pass
that it is gone."""


@dataclass(slots=True)
class _Other:
    """`report` None: in words that nobody knows here. `heard`: when its last word was new."""

    beat: int
    heard: float
    report: ServerReport | None


class SharedTraffic:
    """Of one cluster; may be used from several threads. `leads`: whether this server asks replicas itself;
    `clock`: seconds that only rise."""

    def __init__(
        self, cluster: str, balancer: Balancer, store: Callable[[], Store], leads: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.server = uuid.uuid4().hex
        self.scaled: Collection[str] = ()
        """Identities of services of whose requests others want to hear."""
        self._cluster, self._balancer, self._store, self._leads = cluster, balancer, store, leads
        self._clock = clock
        self._lock = threading.Lock()
        self._others: dict[str, _Other] = {}
        self._unready: Collection[str] = frozenset()
        self._draining: dict[str, float | None] = {}
        """Kernel → when it was found to be gone."""
        self._leaving: set[str] = set()
        """Services that lose one of these."""
        self._said = ServerReport()
        self._beat, self._said_at, self._looked = 0, -SILENT, -SILENT
        self._confirmed: Collection[str] = frozenset()
        """Kernels of which it was said that they are drained before others were looked at."""
        self._first_since: float | None = None
        """When this server became the first of those that are there while none of them leads, and when it was
        last seen to be so:"""
        self._first_at = -SILENT
        self._news = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"shared-traffic-{cluster}", daemon=True)

    def start(self) -> None:
        """Before the first request is taken."""
        for _ in ("say that it is there", "look who is drained"):
            self._try_round()
        self._thread.start()

    def close(self) -> None:
        """Others wait for this server no more."""
        self._over.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        # Where that cannot be said they forget it by themselves, a little later.
        with contextlib.suppress(StoreError):
            self._store().remove_server_report(self._cluster, self.server)

    def is_unready(self, kernel: str) -> bool:
        """Whether a server that asks it says so."""
        return kernel in self._unready

    def is_foremost(self) -> bool:
        """Whether this is the server to do what one of them does: it leads, or none has led for a while (`bai
        reconcile` does), and it is the first of those that are there. Who does not reach the store is it no
        more by the time that another one may be."""
        if self._leads():
            return True
        with self._lock:
            since, now = self._first_since, self._clock()
            return since is not None and since + SILENT <= now < self._first_at + SILENT

    def follow(self, plan: Plan, actual: Actual, serving: Collection[str]) -> None:
        """`serving`: places that get requests by this plan, which nobody drains any more."""
        leaving = {each.service for each in plan.services if each.count("leaving")}
        with self._lock:
            self._leaving = self._leaving | leaving if self._draining else leaving
            if not self._draining:
                return
            there = {kernel for each in actual.existing.values() for kernel in each.recorded.kernels}
            now = self._clock()
            for kernel, gone in list(self._draining.items()):
                left = gone is not None and now >= gone + LINGER
                if left or place_of(self._cluster, kernel) in serving:
                    del self._draining[kernel]
                elif gone is None and kernel not in there:
                    self._draining[kernel] = now
        self._news.set()

    def begin_drain(self, kernel: str) -> None:
        """No server begins anything there from now on. Until each has said how many connections it has, it
        counts as having one."""
        with self._lock:
            self._draining[kernel] = None
            found = self._elsewhere(self._heard())
        self._balancer.note_elsewhere(self._cluster, found)
        self._news.set()

    def look(self) -> None:
        """Hear the others, and say what they do not know yet. Raises StoreError."""
        saved = dict(self._store().server_reports(self._cluster))
        with self._lock:
            now = self._clock()
            known = saved.pop(self.server, None) is not None
            late = now > self._looked + SILENT / 2
            self._looked = now
            self._confirmed = frozenset(self._said.draining) if known else frozenset()
            self._others = {name: self._other(name, each, now) for name, each in saved.items()}
            self._note_place(now)
            heard = self._heard()
            self._unready = frozenset(kernel for each in heard for kernel in each.unready)
            found = self._elsewhere(heard)
        self._balancer.note_elsewhere(self._cluster, found)
        report = self._report(heard)
        if late or not known or self._is_due(report, now, bool(heard)):
            self._say(report)
        for name, other in self._others.items():
            if now > other.heard + FORGOTTEN:
                self._store().remove_server_report(self._cluster, name)

    def _run(self) -> None:
        while not self._over.is_set():
            soon = self._try_round()
            self._news.wait(LOOK_SOON if soon else LOOK_EVERY)
            self._news.clear()

    def _try_round(self) -> bool:
        """Whether somebody waits for the next one."""
        try:
            self.look()
        except StoreError:
            # The loop says so. What others said last counts until then; what is here is said again.
            self._looked = -SILENT
            return False
        with self._lock:
            return bool(self._draining.keys() - self._confirmed)

    def _other(self, name: str, saved: SavedReport, now: float) -> _Other:
        known = self._others.get(name)
        if known is not None and known.beat == saved.beat:
            return known
        try:
            return _Other(saved.beat, now, read_report(saved.text))
        except ValueError:
            return _Other(saved.beat, now, None)

    def _heard(self) -> list[ServerReport]:
        """What those say that are there."""
        return [each for each in self._there().values() if each is not None]

    def _there(self) -> dict[str, ServerReport | None]:
        since = self._clock() - SILENT
        return {name: each.report for name, each in self._others.items() if each.heard >= since}

    def _note_place(self, now: float) -> None:
        """Whose words nobody knows may lead."""
        there = self._there()
        led = self._leads() or any(each is None or each.leads for each in there.values())
        if led or any(name < self.server for name in there):
            self._first_since = None
        elif self._first_since is None or now >= self._first_at + SILENT:
            self._first_since = now
        self._first_at = now

    def _elsewhere(self, heard: Sequence[ServerReport]) -> Elsewhere:
        place = partial(place_of, self._cluster)
        routes: dict[str, list[Replica]] = {}
        requests: dict[str, list[Requests]] = {}
        for each in heard:
            for service, them in each.routes.items():
                routes.setdefault(place(service), []).extend(_replica(place(one.kernel), one) for one in them)
            for service, count in each.requests.items():
                sample = sample_of(count.latencies, MOST_REMEMBERED)
                found = Requests(count.in_flight, count.per_second, sample)
                requests.setdefault(place(service), []).append(found)
        draining = frozenset(place(kernel) for each in heard for kernel in each.draining)
        left = {place(kernel): self._left_elsewhere(kernel, heard) for kernel in self._draining}
        return Elsewhere(draining, routes, left, requests)

    def _left_elsewhere(self, kernel: str, heard: Iterable[ServerReport]) -> int:
        if kernel not in self._confirmed:
            return 1
        return sum(each.heard.get(kernel, 1) for each in heard)

    def _report(self, heard: Sequence[ServerReport]) -> ServerReport:
        name, balancer = f"{self._cluster}/", self._balancer
        services = balancer.names(self._cluster)
        with self._lock:
            draining, leaving = tuple(sorted(self._draining)), sorted(self._leaving)
        report = ServerReport(bool(services), draining, leads=self._leads())
        if draining:
            routes = {each: tuple(map(_route, balancer.routes(f"{name}{each}"))) for each in leaving}
            report = replace(report, routes=routes)
        if not heard:
            return report
        kernels = sorted({kernel for each in heard for kernel in each.draining})
        unready = [place for each in services for place in balancer.unready(each)] if self._leads() else []
        counts = {each: balancer.requests(f"{name}{each}", here_alone=True) for each in sorted(self.scaled)}
        return replace(
            report,
            heard={each: balancer.connections_here(f"{name}{each}") for each in kernels},
            unready=tuple(sorted(each.removeprefix(name) for each in unready)),
            requests={each: _count(one) for each, one in counts.items() if one.in_flight or one.per_second},
        )

    def _is_due(self, report: ServerReport, now: float, is_heard: bool) -> bool:
        if report == self._said:
            return is_heard and now >= self._said_at + BEAT
        said = self._said
        news = report.draining != said.draining or report.heard.keys() != said.heard.keys()
        return news or now >= self._said_at + SAY_EVERY

    def _say(self, report: ServerReport) -> None:
        self._beat += 1
        saved = SavedReport(self._beat, report_text(report))
        self._store().put_server_report(self._cluster, self.server, saved)
        with self._lock:
            self._said, self._said_at = report, self._clock()


def _replica(place: str, route: Route) -> Replica:
    return Replica(
        place, route.generation, route.weight, partial(_listening, route.ports), lambda: True, route.ports
    )


def _listening(ports: Mapping[int, int], port: int) -> int:
    return ports.get(port, port)


def _route(replica: Replica) -> Route:
    return Route(replica.place.partition("/")[2], replica.generation, replica.weight, replica.ports)


def _count(found: Requests) -> RequestCount:
    return RequestCount(found.in_flight, round(found.per_second, 1), count_latencies(found.latencies))
