"""What one apply writes: journal, records and events, gathered and written in one transaction at a time.

Nothing counts before `flush`; the engine flushes before it starts an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.clock import Clock
from reconciler.records import Event, Forget, JournalEntry, JournalState, Put, Recorded, StoreChange
from reconciler.steps import Step
from reconciler.store import Store

TTL = 60.0
"""Seconds that a lease is good for without renewal."""
ENDED = frozenset({"TERMINATED", "ERROR", "CANCELLED"})
_LIFE = ("PENDING", "SCHEDULED", "PREPARING", "CREATING", "RUNNING")


class Ledger:
    """One apply's pen. Raises StoreError and LeaseLost from `flush` and `renew` only."""

    def __init__(self, store: Store, clock: Clock, cluster: str, holder: str, commit: str) -> None:
        self._store = store
        self._clock = clock
        self._commit = commit
        self.lease = store.acquire(cluster, holder, TTL, clock.now())
        self.apply = f"{cluster}-{self.lease.token}"
        self.known: dict[str, Recorded] = {}
        self._changes: list[StoreChange] = []

    def load(self) -> None:
        """Read what is recorded, under the lease."""
        self.known = self._store.recorded(self.lease.cluster)

    def journal(self, action: str, step: Step, state: JournalState, error: str = "") -> None:
        now = self._clock.now()
        entry = JournalEntry(self.apply, action, step.key, step.kind, step.kernel_id, state, now, error)
        self._changes.append(entry)

    def close_intent(self, entry: JournalEntry, state: JournalState, error: str) -> None:
        """Write down how an earlier apply's open step turned out."""
        self._changes.append(replace(entry, state=state, error=error, at=self._clock.now(), seq=0))

    def put(self, record: Recorded, cause: str) -> None:
        """Record it, with the times that it does not say itself, and an event for each phase entered."""
        now = self._clock.now()
        old = self.known.get(record.resource)
        record = _timed(record, old, now)
        self._changes.append(Put(record))
        self._transition(record.resource, old.phase if old else "", record.phase, cause, old is not None)
        self.known[record.resource] = record

    def forget(self, resource: str, cause: str) -> None:
        old = self.known.pop(resource, None)
        self._changes.append(Forget(resource))
        if old is not None:
            after = "TERMINATED" if old.phase else "DELETED"
            if old.phase not in ENDED:
                self._event(resource, old.phase, after, cause)

    def flush(self) -> None:
        """Write everything gathered, or nothing."""
        if self._changes:
            changes, self._changes = self._changes, []
            self._store.write(self.lease, changes)

    def renew(self) -> None:
        """Renew the lease when a third of its time has passed."""
        now = self._clock.now()
        if now >= self.lease.expires - self.lease.ttl * 2 / 3:
            self.lease = self._store.renew(self.lease, now)

    def release(self) -> None:
        self._store.release(self.lease)

    def _transition(self, resource: str, before: str, after: str, cause: str, existed: bool) -> None:
        if not after:
            self._event(resource, "", "CHANGED" if existed else "RECORDED", cause)
            return
        for phase in _between(before, after):
            self._event(resource, before, phase, cause)
            before = phase

    def _event(self, resource: str, before: str, after: str, cause: str) -> None:
        self._changes.append(Event(resource, before, after, cause, self._clock.now(), commit=self._commit))


def _between(before: str, after: str) -> Iterator[str]:
    """The phases a session enters on its way: a new one that is created has been queued, placed and prepared
    as well."""
    if before == after:
        return
    if after in _LIFE:
        first = _LIFE.index(before) + 1 if before in _LIFE else 0
        last = _LIFE.index(after)
        if first <= last:
            yield from _LIFE[first : last + 1]
            return
    yield after


def _timed(record: Recorded, old: Recorded | None, now: float) -> Recorded:
    same = old is not None and old.generation == record.generation
    started, finished = record.started_at, record.finished_at
    if started is None and old is not None and same:
        started = old.started_at
    if started is None and record.phase == "RUNNING":
        started = now
    if finished is None and record.phase in ENDED:
        finished = old.finished_at if old is not None and same and old.phase in ENDED else now
    return replace(record, started_at=started, finished_at=finished)
