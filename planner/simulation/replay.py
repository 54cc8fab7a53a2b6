"""The replay of a trace, from event to event: arrivals, endings, and moments that a rule waits for.

At every moment all endings come first, then all arrivals, and then the planner is asked once. Nothing here
decides who goes where: that is `place`'s own business, see `planner.simulation.incremental_planner`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.model.types import Eviction, Outcome, Placement, SessionRequest
from planner.policies import Policies
from planner.simulation.incremental_planner import IncrementalPlanner, fewest_numa_nodes
from planner.simulation.sampler import ClusterSampler
from planner.simulation.values import Cluster, Job, JobResult, Replay, Samples

_END, _ARRIVAL, _WAKE = 0, 1, 2
_Event = tuple[float, int, str, int]
"""Time, kind, session, and how often the session had been started (endings of an earlier run are void)."""


def replay(
    cluster: Cluster,
    jobs: Iterable[Job],
    policies: Policies,
    *,
    until: float | None = None,
    fresh: bool = False,
) -> Replay:
    """Everything that happens when `jobs` (ids distinct) arrive one after another, up to `until` seconds
    after the first arrival, or until nothing happens any more. Who has not arrived by then is left out. The
    same input gives the same replay.

    `fresh`: see `IncrementalPlanner`; slower, and equal to a `place` of its own at every moment.
    """
    return _ReplayRun(cluster, jobs, policies, fresh=fresh).run(until)


class _ReplayRun:
    def __init__(self, cluster: Cluster, jobs: Iterable[Job], policies: Policies, *, fresh: bool) -> None:
        self._cluster = cluster
        self._planner = IncrementalPlanner(cluster, policies, fresh=fresh)
        self._sampler = ClusterSampler(self._planner.tables.values())
        self._results = {
            job.request.id: JobResult(job)
            for job in sorted(jobs, key=lambda one: (one.arrival, one.request.id))
        }
        fewest = fewest_numa_nodes(cluster, (one.job.request for one in self._results.values()))
        for name, result in self._results.items():
            result.fewest = fewest[name]
        self._waiting: dict[str, SessionRequest] = {}
        self._remaining = {name: one.job.duration for name, one in self._results.items()}
        self._starts: Counter[str] = Counter()
        self._began: dict[str, float] = {}
        self._events: list[_Event] = [
            (one.job.arrival, _ARRIVAL, name, 0) for name, one in self._results.items()
        ]
        heapq.heapify(self._events)
        self._options = {group.name: group for group in cluster.groups}
        self._samples = Samples()
        self._decisions = 0

    def run(self, until: float | None) -> Replay:
        begin = self._events[0][0] if self._events else 0.0
        self._wake_for_reservations(begin)
        now = begin
        while self._events and (until is None or self._events[0][0] <= begin + until):
            if self._events[0][1] == _WAKE and not self._waiting:
                heapq.heappop(self._events)
                continue
            now = self._events[0][0]
            self._step(now)
        cut = until is not None and bool(self._events)
        if until is not None and cut:
            now = begin + until
        self._sampler.read(self._samples, now, len(self._planner.running), len(self._waiting))
        results = tuple(one for one in self._results.values() if one.job.arrival <= now)
        last = max((one.started or one.job.arrival for one in results), default=now)
        return Replay(
            results=results,
            samples=self._samples,
            capacity=self._sampler.capacity,
            begin=begin,
            end=now,
            settled=now if cut else last,
            decisions=self._decisions,
            causes=self._wait_causes(now),
        )

    def _step(self, now: float) -> None:
        """All that happens now, then one plan."""
        gone: list[str] = []
        while self._events and self._events[0][0] == now:
            _, kind, name, start = heapq.heappop(self._events)
            if kind == _END and start == self._starts[name] and name in self._planner.running:
                gone.append(name)
            elif kind == _ARRIVAL:
                self._arrive(self._results[name].job, now)
        if gone:
            self._end(gone, now)
        self._give_up(now)
        if self._waiting:
            self._decisions += 1
            self._apply_outcome(self._planner.decide(now, self._pending()), now)
        self._sampler.read(self._samples, now, len(self._planner.running), len(self._waiting))

    def _pending(self) -> tuple[SessionRequest, ...]:
        """Everybody who waits, each with the dependencies that are not met yet."""
        return tuple(
            replace(one, blocked_by=self._unmet_dependencies(one)) if one.depends_on else one
            for one in self._waiting.values()
        )

    def _unmet_dependencies(self, request: SessionRequest) -> tuple[str, ...]:
        """A batch session must have finished, any other must run or have run."""
        found = []
        for name in sorted(request.depends_on):
            other = self._results.get(name)
            batch = other is not None and other.job.request.type == "batch"
            met = other is not None and (
                other.state == "finished" or (not batch and other.state == "running")
            )
            if not met:
                found.append(f"{name} ({other.state if other else 'not in the trace'})")
        return tuple(found)

    def _arrive(self, job: Job, now: float) -> None:
        request = job.request
        self._waiting[request.id] = request
        if request.starts_at is not None and request.starts_at > now:
            self._wake_at(request.starts_at)
        timeout = self._pending_timeout(request)
        if timeout is not None:
            self._wake_at(job.arrival + timeout)

    def _end(self, gone: Sequence[str], now: float) -> None:
        self._planner.release(gone, now)
        for name in gone:
            result = self._results[name]
            result.state, result.ended = "finished", now

    def _give_up(self, now: float) -> None:
        """Whoever waited for as long as the group's `pendingTimeout` is cancelled."""
        for name, request in list(self._waiting.items()):
            timeout = self._pending_timeout(request)
            if timeout is not None and now - request.enqueued >= timeout:
                del self._waiting[name]
                result = self._results[name]
                result.state, result.ended = "gave-up", now

    def _apply_outcome(self, outcome: Outcome, now: float) -> None:
        for gone in outcome.evictions:
            self._evict(gone, now)
        if outcome.evictions:
            self._wake_at(now)  # whoever was pushed out may fit elsewhere, which the next plan finds
        for placement in outcome.placements:
            self._start(placement, now)
        for wait in outcome.waits:
            request = self._waiting.get(wait.session)
            if request is not None and request.skips != wait.skips:
                self._waiting[wait.session] = replace(request, skips=wait.skips)

    def _start(self, placement: Placement, now: float) -> None:
        name = placement.session
        request, result = self._waiting.pop(name), self._results[name]
        self._starts[name] += 1
        self._began[name] = now
        result.state = "running"
        result.started = now if result.started is None else result.started
        result.numa_nodes = placement.choice.numa_nodes if placement.choice else 1
        runs = (
            self._remaining[name] if request.timeout is None else min(self._remaining[name], request.timeout)
        )
        heapq.heappush(self._events, (now + runs, _END, name, self._starts[name]))
        rule = self._options[request.group].preemption
        if rule is not None and request.preemptible and rule.minimum_run > 0:
            self._wake_at(now + rule.minimum_run)

    def _evict(self, eviction: Eviction, now: float) -> None:
        result = self._results[eviction.session]
        ran = now - self._began[eviction.session]
        result.evictions += 1
        result.state = "waiting"
        if result.job.checkpoint:
            self._remaining[eviction.session] -= ran
        else:
            result.lost += ran
        self._waiting[eviction.session] = result.job.request

    def _pending_timeout(self, request: SessionRequest) -> float | None:
        group = self._options.get(request.group)
        given = group.queue_options.get("pendingTimeout") if group else None
        return float(given) if isinstance(given, int | float) else None

    def _wake_at(self, when: float) -> None:
        heapq.heappush(self._events, (when, _WAKE, "", 0))

    def _wake_for_reservations(self, begin: float) -> None:
        """Room appears and disappears with reservations, while there is somebody to wait for it."""
        last = max((one.job.arrival for one in self._results.values()), default=begin)
        for group in self._cluster.groups:
            for kept in group.reservations:
                for when in (kept.starts, kept.ends):
                    if begin < when and kept.starts <= last:
                        self._wake_at(when)

    def _wait_causes(self, now: float) -> dict[str, int]:
        """What those who never started wait for in the end, by the planner's own reasons."""
        pending = self._pending()
        if not pending:
            return {}
        outcome = self._planner.decide(now, pending, explained=True)
        for wait in outcome.waits:
            codes = tuple(dict.fromkeys(reason.code for reason in wait.reasons))
            self._results[wait.session].reasons = codes
        started = {one.session for one in outcome.placements}
        waiting = [
            one for name, one in self._results.items() if name in self._waiting and name not in started
        ]
        return dict(sorted(Counter(code for one in waiting for code in one.reasons[:1]).items()))
